std = "lua54"
max_line_length = 140
exclude_files = {"build", ".venv", "out", "lua/moontensor/meta"} -- the last is generated
files["spec"] = {std = "lua54+busted"}
files[".busted"] = {std = "lua54"}
files["rockspec/*.rockspec"] = {std = "rockspec"}

/* Our DLPack structs and constants against a real dlpack.h: compiled only, never run. */
#include DLPACK_HEADER
#include "moontensor_abi.h"

#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours)
#define FIELD(our_type, our, their_type, their)                 \
    SAME(offsetof(our_type, our), offsetof(their_type, their)); \
    SAME(sizeof(((our_type *)0)->our), sizeof(((their_type *)0)->their))

#if DLPACK_MAJOR_VERSION != 1 || DLPACK_MINOR_VERSION < 3
#error "dlpack.h of version 1.3 or a later 1.x is needed"
#endif
SAME(MOON_DL_MAJOR, DLPACK_MAJOR_VERSION);

SAME(sizeof(moon_dl_device), sizeof(DLDevice));
FIELD(moon_dl_device, type, DLDevice, device_type);
FIELD(moon_dl_device, id, DLDevice, device_id);

SAME(sizeof(moon_dl_dtype), sizeof(DLDataType));
FIELD(moon_dl_dtype, code, DLDataType, code);
FIELD(moon_dl_dtype, bits, DLDataType, bits);
FIELD(moon_dl_dtype, lanes, DLDataType, lanes);

SAME(sizeof(moon_dl_tensor), sizeof(DLTensor));
FIELD(moon_dl_tensor, data, DLTensor, data);
FIELD(moon_dl_tensor, device, DLTensor, device);
FIELD(moon_dl_tensor, ndim, DLTensor, ndim);
FIELD(moon_dl_tensor, dtype, DLTensor, dtype);
FIELD(moon_dl_tensor, shape, DLTensor, shape);
FIELD(moon_dl_tensor, strides, DLTensor, strides);
FIELD(moon_dl_tensor, byte_offset, DLTensor, byte_offset);

SAME(sizeof(moon_dl_managed), sizeof(DLManagedTensor));
FIELD(moon_dl_managed, dl_tensor, DLManagedTensor, dl_tensor);
FIELD(moon_dl_managed, manager_ctx, DLManagedTensor, manager_ctx);
FIELD(moon_dl_managed, deleter, DLManagedTensor, deleter);

SAME(sizeof(moon_dl_version), sizeof(DLPackVersion));
FIELD(moon_dl_version, major, DLPackVersion, major);
FIELD(moon_dl_version, minor, DLPackVersion, minor);

SAME(sizeof(moon_dl_versioned), sizeof(DLManagedTensorVersioned));
FIELD(moon_dl_versioned, version, DLManagedTensorVersioned, version);
FIELD(moon_dl_versioned, manager_ctx, DLManagedTensorVersioned, manager_ctx);
FIELD(moon_dl_versioned, deleter, DLManagedTensorVersioned, deleter);
FIELD(moon_dl_versioned, flags, DLManagedTensorVersioned, flags);
FIELD(moon_dl_versioned, dl_tensor, DLManagedTensorVersioned, dl_tensor);

SAME(MOON_DL_READ_ONLY, DLPACK_FLAG_BITMASK_READ_ONLY);
SAME(MOON_DL_IS_COPIED, DLPACK_FLAG_BITMASK_IS_COPIED);
SAME(MOON_DL_SUBBYTE_PADDED, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);

/* compared as ints, since their enums are types of their own */
SAME((int)MOON_DL_INT, (int)kDLInt);
SAME((int)MOON_DL_UINT, (int)kDLUInt);
SAME((int)MOON_DL_FLOAT, (int)kDLFloat);
SAME((int)MOON_DL_OPAQUE, (int)kDLOpaqueHandle);
SAME((int)MOON_DL_BFLOAT, (int)kDLBfloat);
SAME((int)MOON_DL_COMPLEX, (int)kDLComplex);
SAME((int)MOON_DL_BOOL, (int)kDLBool);
SAME((int)MOON_DL_FLOAT8_E4M3FN, (int)kDLFloat8_e4m3fn);
SAME((int)MOON_DL_FLOAT8_E5M2, (int)kDLFloat8_e5m2);
SAME((int)MOON_DL_CPU, (int)kDLCPU);
SAME((int)MOON_DL_CUDA, (int)kDLCUDA);
SAME((int)MOON_DL_CUDA_HOST, (int)kDLCUDAHost);
SAME((int)MOON_DL_METAL, (int)kDLMetal);
SAME((int)MOON_DL_ROCM, (int)kDLROCM);
SAME((int)MOON_DL_ROCM_HOST, (int)kDLROCMHost);
SAME((int)MOON_DL_CUDA_MANAGED, (int)kDLCUDAManaged);

#include "half.h"
#include "dtype.h"

float moon_half_to_float(uint16_t bits) { return moon_from_half(bits); }
uint16_t moon_float_to_half(float value) { return moon_to_half(value); }
float moon_bfloat_to_float(uint16_t bits) { return moon_from_bfloat(bits); }
uint16_t moon_float_to_bfloat(float value) { return moon_to_bfloat(value); }
float moon_e4m3_to_float(uint8_t bits) { return moon_from_e4m3(bits); }
uint8_t moon_float_to_e4m3(float value) { return moon_to_e4m3(value); }
float moon_e5m2_to_float(uint8_t bits) { return moon_from_e5m2(bits); }
uint8_t moon_float_to_e5m2(float value) { return moon_to_e5m2(value); }

//= rates

__kernel WIDE void peak(__global float *y, int count) {
  const float s = y[0];
  float16 w = (float16)(s), a = w, b = w + 1.0f, c = w + 2.0f, d = w + 3.0f, e = w + 4.0f, f = w + 5.0f, g = w + 6.0f,
          h = w + 7.0f;
  for (int i = 0; i < count; i++) {
    a += w * a; b += w * b; c += w * c; d += w * d; e += w * e; f += w * f; g += w * g; h += w * h;
  }
  a = a + b + c + d + e + f + g + h;
  y[get_global_id(0) + 1] = s * (a.s0 + a.s5 + a.sa + a.sf);  // s is 0, which the compiler does not know
}
__kernel WIDE void sweep(__global const float16 *x, __global float *y, int count) {
  float16 a = 0.0f, b = 0.0f;
  x += get_global_id(0) * 2;
  for (int i = 0; i < count; i++, x += 2 * get_global_size(0)) { a += x[0]; b += x[1]; }
  a += b;
  y[get_global_id(0) + 1] = a.s0 + a.s5 + a.sa + a.sf;
}

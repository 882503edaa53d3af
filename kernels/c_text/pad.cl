//! The copy of the input with zeros around it, for tiles that read beyond its border.
//= gpu
//! Neighbouring threads copy neighbouring floats.

__kernel GROUP(PAD_GROUP, 1) void pad(SIGNATURE) {
  const int length = row_floats + 2 * margin, total = planes * padded_height * length;
  for (int i = get_global_id(0); i < total; i += get_global_size(0)) {
    const int row = i / length, column = i % length - margin, line = row % padded_height - above;
    const int inside = line >= 0 && line < height && column >= 0 && column < row_floats;
    workspace[i] = inside ? x[(row / padded_height * height + line) * row_floats + column] : 0.0f;
  }
}
//= any
//! A work-item copies adjacent rows.

__kernel void pad(SIGNATURE) {
  const int total = planes * padded_height, length = row_floats + 2 * margin;
  const int items = get_global_size(0), item = get_global_id(0);
  const int share = (total + items - 1) / items;
  for (int row = item * share; row < min(total, (item + 1) * share); row++) {
    const int line = row % padded_height - above;
    __global float *to = workspace + row * length;
    if (line < 0 || line >= height) {
      for (int i = 0; i < length; i++) to[i] = 0.0f;
    } else {
      __global const float *from = x + (row / padded_height * height + line) * row_floats;
      for (int i = 0; i < margin; i++) to[i] = 0.0f;
      for (int i = 0; i < row_floats; i++) to[margin + i] = from[i];
      for (int i = margin + row_floats; i < length; i++) to[i] = 0.0f;
    }
  }
}

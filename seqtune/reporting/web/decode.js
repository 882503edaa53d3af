// Decoding: the payload of the page as facts and columns of whole numbers (payload.py describes the layout).
async function inflated(deflated) {
  const { readable, writable } = new DecompressionStream("deflate");
  const writer = writable.getWriter(), reader = readable.getReader();
  writer.write(deflated).then(() => writer.close()).catch(() => {});  // reading fails, too
  const parts = [];
  let length = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    length += part.value.length;
  }
  const bytes = new Uint8Array(length);
  let begin = 0;
  for (const part of parts) {
    bytes.set(part, begin);
    begin += part.length;
  }
  return bytes;
}

async function decode(text) {
  const binary = atob(text);
  const deflated = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) deflated[i] = binary.charCodeAt(i);
  const bytes = await inflated(deflated);
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const facts = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const columns = new Map();
  let begin = 4 + length;
  for (const [name, size, count] of facts.columns) {
    const column = new (size === 1 ? Uint8Array : size === 2 ? Uint16Array : Uint32Array)(count);
    for (let plane = 0; plane < size; plane++, begin += count) {
      const shift = 8 * plane;
      for (let i = 0; i < count; i++) column[i] |= bytes[begin + i] << shift;
    }
    columns.set(name, column);
  }
  return { facts, columns };
}

// The records as cases: a case is a problem on a machine.
class Records {
  constructor(facts, columns) {
    this.facts = facts;
    this.columns = columns;
    this.cases = columns.get("machine").length;
    this.begins = new Uint32Array(this.cases + 1);
    columns.get("count").forEach((count, index) => { this.begins[index + 1] = this.begins[index] + count; });
  }
  seconds(level) {
    return level ? Math.exp(this.facts.log_base + (level - 1) * this.facts.log_step) : NaN;
  }
  of(name, index) { return this.columns.get(name)[index]; }
  problem(index) { return this.facts.problems[this.of("problem", index)]; }
  value(kernel, configuration, parameter) {
    const column = this.columns.get(`value:${kernel}:${parameter}`);
    return column.length ? column[configuration] : 0;
  }
  settings(kernel, configuration) {
    const { name, parameters } = this.facts.kernels[kernel];
    const words = parameters.map((parameter, index) => {
      const value = parameter.values[this.value(kernel, configuration, index)];
      return value === null ? "" : `${parameter.name}=${value}`;
    });
    return [name, ...words.filter(Boolean)].join(" ");
  }
  // The configurations of a case that ran, fastest first, each with the median of its times.
  configurations(index) {
    const groups = new Map();
    for (let row = this.begins[index]; row < this.begins[index + 1]; row++) {
      const level = this.of("seconds", row);
      if (!level) continue;
      const kernel = this.of("kernel", row), configuration = this.of("configuration", row);
      const key = kernel * 2 ** 32 + configuration;
      if (!groups.has(key)) groups.set(key, { kernel, configuration, levels: [] });
      groups.get(key).levels.push(level);
    }
    const configurations = [...groups.values()];
    for (const group of configurations) {
      const sorted = group.levels.sort((a, b) => a - b), middle = sorted.length >> 1;
      group.seconds = sorted.length % 2 ? this.seconds(sorted[middle])
        : (this.seconds(sorted[middle - 1]) + this.seconds(sorted[middle])) / 2;
    }
    return configurations.sort((a, b) => a.seconds - b.seconds);
  }
}

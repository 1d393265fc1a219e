/** Where the requests of one batch lie in its spooled body: 17 bytes per request, no objects. */
export interface ItemIndex {
  readonly count: () => number;
  /** Adds a request. `paramsOffset` is in bytes from the start of the body, and grows from call to call. */
  add(customId: string, paramsOffset: number, paramsLength: number): void;
  customId(index: number): string;
  paramsOffset(index: number): number;
  paramsLength(index: number): number;
}

/** An empty index. Custom ids must be ASCII, as the envelope rules demand. */
export function createItemIndex(): ItemIndex {
  let capacity = 64;
  let count = 0;
  let offsets = new Float64Array(capacity);
  let lengths = new Uint32Array(capacity);
  let idEnds = new Uint32Array(capacity);
  let ids = Buffer.alloc(capacity * 32);

  function grow(): void {
    capacity *= 2;
    const [oldOffsets, oldLengths, oldEnds] = [offsets, lengths, idEnds];
    offsets = new Float64Array(capacity);
    offsets.set(oldOffsets);
    lengths = new Uint32Array(capacity);
    lengths.set(oldLengths);
    idEnds = new Uint32Array(capacity);
    idEnds.set(oldEnds);
  }

  return {
    count: () => count,
    add(customId, paramsOffset, paramsLength) {
      if (count === capacity) grow();
      const start = count === 0 ? 0 : (idEnds[count - 1] ?? 0);
      if (start + customId.length > ids.length) ids = Buffer.concat([ids, Buffer.alloc(ids.length)]);
      ids.write(customId, start, 'latin1');
      idEnds[count] = start + customId.length;
      offsets[count] = paramsOffset;
      lengths[count] = paramsLength;
      count++;
    },
    customId: (index) =>
      ids.toString('latin1', index === 0 ? 0 : (idEnds[index - 1] ?? 0), idEnds[index] ?? 0),
    paramsOffset: (index) => offsets[index] ?? 0,
    paramsLength: (index) => lengths[index] ?? 0,
  };
}

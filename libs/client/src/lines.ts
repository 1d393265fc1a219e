/**
 * Yields the complete lines of a body, and ends its download when the reader stops. The part of a line at the end is dropped.
 * Throws: if the body is cut, or if no byte comes for `silenceMsMax`.
 */
export async function* linesOf(
  body: ReadableStream<Uint8Array> | null,
  silenceMsMax = Infinity,
): AsyncGenerator<string, void, undefined> {
  if (body === null) return;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parts: string[] = [];
  try {
    for (;;) {
      const read = await within(silenceMsMax, reader.read());
      if (read.done) return;
      const [first = '', ...rest] = decoder.decode(read.value, { stream: true }).split('\n');
      parts.push(first);
      for (const part of rest) {
        yield parts.join('').replace(/\r$/, '');
        parts = [part];
      }
    }
  } finally {
    // Its answer is not awaited: a connection that is gone may give none.
    reader.cancel().catch(() => undefined);
  }
}

async function within<Value>(ms: number, value: Promise<Value>): Promise<Value> {
  if (ms === Infinity) return value;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`The stream was silent for ${ms / 1_000} s.`)), ms);
  });
  try {
    return await Promise.race([value, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The promise's value, or an error saying what took too long. The promise itself goes on; a late rejection is swallowed. */
export async function within<T>(promise: Promise<T>, timeoutMs: number, what: string): Promise<T> {
  promise.catch(() => undefined);
  let timer: NodeJS.Timeout | undefined;
  const expiry = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`${what} took longer than ${timeoutMs} ms`));
    }, timeoutMs);
  });
  try {
    return await Promise.race([promise, expiry]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for the promise to settle, whichever way, but no longer than this. True when it did. */
export async function settles(promise: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  );
  try {
    return await within(settled, timeoutMs, 'the wait');
  } catch {
    return false;
  }
}

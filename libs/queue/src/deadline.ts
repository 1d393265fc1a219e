/**
 * Waits for a promise with a timeout. The promise itself continues; a late rejection is ignored.
 * Throws: an error that names the `action` when it times out.
 */
export async function within<T>(promise: Promise<T>, timeoutMs: number, action: string): Promise<T> {
  promise.catch(() => undefined);
  let timer: NodeJS.Timeout | undefined;
  const expiry = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`${action} took longer than ${timeoutMs} ms`));
    }, timeoutMs);
  });
  try {
    return await Promise.race([promise, expiry]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for a promise to settle; true when it did within `timeoutMs`. */
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

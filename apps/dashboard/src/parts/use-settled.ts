import { useEffect, useState } from 'react';

/** Returns a value once it has not changed for a while, so that a preview does not ask at each letter. Default: 300 ms. */
export function useSettled(value: string, ms = 300): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

/** The lowest 32 bits as eight hex digits; by halves, because numbers above 30 bits are printed many times slower. */
export function hex32(bits: number): string {
  return hex16(bits >>> 16) + hex16(bits & 0xffff);
}

function hex16(bits: number): string {
  return bits.toString(16).padStart(4, '0');
}

/** What a line of a worker's log says of a tool module that cannot be used, or of a folder of them; undefined for other lines. */
export function toolLeftOut(line: string): string | undefined {
  if (!line.includes('left out')) return undefined;
  let said: Readonly<Record<string, unknown>> | null;
  try {
    said = JSON.parse(line) as Readonly<Record<string, unknown>> | null;
  } catch {
    return undefined;
  }
  if (said?.['msg'] !== 'tool module left out' && said?.['flow'] !== 'register-tools') return undefined;
  const { file, reason } = said;
  if (typeof file !== 'string' || typeof reason !== 'string') return undefined;
  return `Tools: ${file} is left out: ${reason}`;
}

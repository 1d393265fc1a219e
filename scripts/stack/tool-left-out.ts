/**
 * Reads from a worker's log line that a tool module or folder cannot be used, or that modules of tools are
 * missing. Returns undefined for other lines.
 */
export function toolLeftOut(line: string): string | undefined {
  if (!line.includes('left out') && !line.includes('register-tools')) return undefined;
  let said: Readonly<Record<string, unknown>> | null;
  try {
    said = JSON.parse(line) as Readonly<Record<string, unknown>> | null;
  } catch {
    return undefined;
  }
  if (said?.['msg'] !== 'tool module left out' && said?.['flow'] !== 'register-tools') return undefined;
  const { file, reason, tools } = said;
  if (typeof tools === 'string')
    return `Tools: agents have ${tools}, of which TOOLS_DIR holds no usable module: their calls fail.`;
  if (typeof file !== 'string' || typeof reason !== 'string') return undefined;
  return `Tools: ${file} is left out: ${reason}`;
}

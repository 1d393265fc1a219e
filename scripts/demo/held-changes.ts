import type { Client } from './client.ts';

/** The fields of a held change that the demo shows. */
export interface HeldChange {
  readonly agent_id: string;
  readonly label: string;
  readonly from_revision: number | null;
  /** Unified diff. */
  readonly diff: string;
}

/** The answer to accepting held changes. */
export interface AcceptReport {
  readonly accepted: number;
  readonly stale: readonly unknown[];
}

/** Accepts all held changes of a batch. */
export function acceptAll(client: Client, batchId: string): Promise<AcceptReport> {
  return client.post(`/v1/batches/${batchId}/held-changes/accept`, {});
}

/** Renders the lines of a unified diff, without its header. */
export function renderDiff(
  diff: string,
  options: { readonly colour: boolean; readonly linesMax: number },
): string {
  const paint = (code: number, text: string): string =>
    options.colour ? `\u001b[${code}m${text}\u001b[0m` : text;
  const lines = withoutEndMark(diff)
    .split('\n')
    .filter((line) => /^[-+ ](?!-- |\+\+ )/.test(line));
  const shown = lines.slice(0, options.linesMax).map((line) => {
    const text = `    ${line.length > 114 ? `${line.slice(0, 113)}…` : line}`;
    if (line.startsWith('+')) return paint(32, text);
    return line.startsWith('-') ? paint(31, text) : text;
  });
  if (lines.length > shown.length) shown.push(`    … ${lines.length - shown.length} more lines`);
  return shown.join('\n');
}

/** Joins the two forms of a last line that differ in its line break alone. */
function withoutEndMark(diff: string): string {
  return diff.replace(/^-(.*)\n\\ No newline at end of file\n\+\1$/m, ' $1');
}

import { createWriteStream, existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { CommandError } from '../../failure.ts';
import { bytesOfInput, inputOf } from '../../input/open-input.ts';
import { gather } from '../../parse.ts';
import type { Define, Session } from '../../session.ts';
import { countOfNoun } from '../../words.ts';

interface ExportFlags {
  readonly tag?: readonly string[];
  readonly name?: string;
  readonly all?: true;
  readonly messages: boolean;
  readonly legacy?: true;
  readonly output?: string;
}

interface ImportFlags {
  readonly strict?: true;
}

/** Adds `export` and `import`. */
export const defineFiles: Define = (command, run) => {
  command
    .command('export')
    .description('write an agent as an .af file, or several as JSON lines')
    .argument('[agent]', 'id of the agent')
    .option('--tag <tag>', 'agents with this tag; may be repeated: with all of them', gather)
    .option('--name <text>', 'agents with this name')
    .option('--all', 'all agents')
    .option('--no-messages', "without the agent's messages")
    .option('--legacy', "in Letta's older format")
    .option('-o, --output <file>', 'file to write (default: standard output)')
    .action(run<ExportFlags>(exportAgents));
  command
    .command('import')
    .description('make agents of an .af file, or of JSON lines; all or none')
    .argument('<file>', '.af or .json with a form of Letta, .jsonl with an agent a line; - for an .af file')
    .option('--strict', 'refuse a file of which a part would be left out')
    .action(run<ImportFlags>(importAgents));
};

async function exportAgents(session: Session, flags: ExportFlags, id?: string): Promise<undefined> {
  const isSelection = flags.tag !== undefined || flags.name !== undefined || flags.all === true;
  if ((id !== undefined) === isSelection)
    throw new CommandError('Name an agent, or choose several with --tag, --name or --all.');
  if (isSelection && (flags.legacy === true || !flags.messages))
    throw new CommandError(
      'JSON lines have no messages and one format. Leave --legacy and --no-messages out.',
    );
  const file = flags.output === '-' ? undefined : flags.output;
  // Never over a file: it may be the only copy of other agents.
  if (file !== undefined && existsSync(file))
    throw new CommandError(`${file} exists. Name another file; nothing was written.`);
  const texts = id === undefined ? linesOf(session, flags) : fileOf(session, id, flags);
  if (file === undefined) {
    for await (const text of texts) await session.out.write(text);
    return;
  }
  try {
    await pipeline(texts, createWriteStream(file, { flags: 'wx' }));
  } catch (error) {
    // A part of the agents would look like all of them.
    await rm(file, { force: true });
    throw error;
  }
  session.out.note(`Written to ${file}.`);
}

async function* fileOf(
  { client }: Session,
  id: string,
  { legacy, messages }: ExportFlags,
): AsyncGenerator<string, void> {
  const file = await client.agents.exportFile(id, { legacy: legacy === true, stripMessages: !messages });
  yield `${JSON.stringify(file)}\n`;
}

async function* linesOf(
  { client, signal }: Session,
  { tag, name }: ExportFlags,
): AsyncGenerator<string, void> {
  const query = {
    ...(tag !== undefined && { tags: [...tag], match_all_tags: true }),
    ...(name !== undefined && { name }),
  };
  for await (const agent of client.agents.exportLines(query, { signal })) yield `${JSON.stringify(agent)}\n`;
}

async function importAgents(session: Session, { strict }: ImportFlags, file: string): Promise<undefined> {
  const { client, out, signal } = session;
  const isLines = /\.(jsonl|ndjson)(\.(gz|zst))?$/i.test(file);
  const parts: Buffer<ArrayBuffer>[] = [];
  for await (const part of bytesOfInput(inputOf(file, isLines ? 'jsonl' : 'json')))
    parts.push(part as Buffer<ArrayBuffer>);
  const content = new Blob(parts);
  const choice = strict === true ? { strict } : {};
  const report = isLines
    ? await client.agents.importLines(content, choice, { signal })
    : await client.agents.importFile(content, choice, { signal });
  await out.record(report, () => report.agent_ids.join('\n'));
  for (const { path, reason } of report.left_out) out.warn(`Left out: ${path}: ${reason}`);
  const more = report.left_out_total - report.left_out.length;
  if (more > 0) out.warn(`… and ${countOfNoun(more, 'further part')}. --strict refuses such a file.`);
  out.note(`${countOfNoun(report.agent_ids.length, 'agent')} made.`);
}

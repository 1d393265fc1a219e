import { constants, createReadStream } from 'node:fs';
import { access } from 'node:fs/promises';
import { Readable } from 'node:stream';
import type { AppendReport } from '@nightshift/client';
import { Option } from 'commander';
import { CommandError } from '../../failure.ts';
import { inputOf } from '../../input/open-input.ts';
import { readText } from '../../json-input.ts';
import { addOnceFlag, makeOnce, type OnceFlags } from '../../once.ts';
import type { Define, Session } from '../../session.ts';
import { countOf, countOfNoun } from '../../words.ts';

interface Flags extends OnceFlags {
  readonly role: 'user' | 'assistant' | 'system';
  readonly name?: string;
  readonly otid?: string;
  readonly saidAt?: string;
  readonly file?: string;
}

/** Adds `append`. */
export const defineAppend: Define = (command, run) => {
  addOnceFlag(
    command
      .command('append')
      .description('add messages to conversations, without a run')
      .argument('[agent]', 'id of the agent')
      .argument('[text]', 'the message, or - for standard input'),
    'messages',
  )
    .addOption(
      new Option('--role <role>', 'speaker').choices(['user', 'assistant', 'system']).default('user'),
    )
    .option('--name <text>', "speaker's name")
    .option('--otid <id>', 'your id of the message: it is added once')
    .option('--said-at <time>', 'when it was said, such as 2026-11-30T09:12:00Z')
    .option('--file <file>', 'JSONL with {"agent_id", "messages"} a line for many agents, or -')
    .action(run<Flags>(append));
};

async function append(session: Session, flags: Flags, id?: string, text?: string): Promise<undefined> {
  if (flags.file !== undefined && id !== undefined)
    throw new CommandError('Give an agent or --file, not both: the file names the agents.');
  if (flags.file === undefined && id === undefined)
    throw new CommandError('Name an agent and its message, or --file with messages of many agents.');
  const report =
    flags.file === undefined
      ? await appendOne(session, flags, id ?? '', text)
      : await appendFile(session, flags, flags.file);
  await session.out.record(report, () => `${countOfNoun(report.appended, 'message')} appended`);
  if (report.repeated > 0)
    session.out.note(`${countOf(report.repeated)} were there already, under the same otid.`);
  if (report.waiting > 0)
    session.out.note(
      `${countOf(report.waiting)} wait for the end of the runs that hold their conversations.`,
    );
}

async function appendOne(
  session: Session,
  flags: Flags,
  id: string,
  text: string | undefined,
): Promise<AppendReport> {
  const { role, name, otid, saidAt } = flags;
  if (text === undefined && process.stdin.isTTY)
    throw new CommandError('There is no message. Write it behind the agent, or - to read standard input.');
  const content = text === undefined || text === '-' ? await readText('-') : text;
  if (content.trim() === '')
    throw new CommandError('The message is empty. Write a text; nothing was appended.');
  const message = {
    role,
    content,
    ...(name !== undefined && { name }),
    ...(otid !== undefined && { otid }),
    ...(saidAt !== undefined && { said_at: saidAt }),
  };
  return makeOnce(session, flags, (once) =>
    session.client.agents.appendMessages(id, { messages: [message] }, once),
  );
}

/** Streams the file: all its messages are stored, or none. */
async function appendFile(session: Session, flags: Flags, file: string): Promise<AppendReport> {
  const { path, encoding } = inputOf(file, 'jsonl');
  // A file that cannot be read is told before anything is sent.
  if (path !== null) await access(path, constants.R_OK);
  const source = path === null ? process.stdin : undefined;
  const answer = await makeOnce(session, flags, ({ idempotencyKey }) =>
    session.client.request('POST', '/v1/messages/append', {
      headers: {
        'content-type': 'application/jsonl',
        'idempotency-key': idempotencyKey,
        ...(encoding === 'identity' ? {} : { 'content-encoding': encoding }),
      },
      body: () => Readable.toWeb(source ?? createReadStream(path ?? '')) as ReadableStream<Uint8Array>,
      // Standard input cannot be read twice.
      ...(path === null && { retriesMax: 0 }),
      timeoutMs: Number.POSITIVE_INFINITY,
      signal: session.signal,
    }),
  );
  return (await answer.json()) as AppendReport;
}

import { Command, CommanderError, Option } from 'commander';
import type { createNightshift } from '@nightshift/client';
import { COMMANDS } from './commands.ts';
import type { Config, ConfigFlags } from './config.ts';
import { confirm } from './confirm.ts';
import { CommandError, EXIT, failureOf, type FailureContext } from './failure.ts';
import { termsOf } from './input/places.ts';
import { createOutput, type Output, type Screen } from './output.ts';
import type { Run, Session } from './session.ts';
import { plainOf } from './table.ts';

/** Commands of long transfers, which retry as often as the client does. */
const PATIENT: ReadonlySet<string> = new Set(['submit', 'import', 'watch', 'results', 'events', 'mcp']);
/** Retries of all other commands: without an API they end after 1.5 s. */
const RETRIES_MAX = 2;

/** Effects of the process that a program runs in. */
export interface Surroundings {
  readonly stdout: Screen;
  readonly stderr: Screen;
  readonly signal: AbortSignal;
  readonly version: string;
  configure(flags: ConfigFlags): Config;
}

/** Flags of every command. */
interface GlobalFlags extends ConfigFlags {
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly yes?: boolean;
}

/**
 * Runs a command line, without the program's name. Returns the exit code; messages have been written.
 * Only the named command is loaded: the start stays short.
 */
export async function runCommandLine(args: readonly string[], surroundings: Surroundings): Promise<number> {
  let exitCode: number = EXIT.ok;
  let config: Config | undefined;
  let options: object = {};
  const program = createProgram(surroundings);
  const run: Run =
    (act) =>
    async (...given) => {
      const command = given.at(-1) as Command;
      options = given.at(-2) as object;
      const flags = command.optsWithGlobals<GlobalFlags>();
      config = surroundings.configure(flags);
      const session = openSession(
        { ...flags, isPatient: args.some((arg) => PATIENT.has(arg)) },
        config,
        await import('@nightshift/client'),
        surroundings,
      );
      try {
        const acting = act(session, options as never, ...(given.slice(0, -2) as string[]));
        exitCode = (await Promise.race([acting, interruption(surroundings.signal)])) ?? EXIT.ok;
      } finally {
        session.out.draw('');
      }
    };
  try {
    await addCommands(program, args, run);
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    const context = { ...config, inFileTerms: termsOf(options) };
    return report(error, args.includes('--json'), surroundings, context);
  }
}

/** Time that an interrupted command has to end by itself, with a sentence of its own. */
const GRACE_MS = 2_000;

/** Rejects some time after the interruption, for a command that does not end by itself. */
function interruption(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => {
      setTimeout(() => reject(signal.reason as Error), GRACE_MS).unref();
    });
  });
}

function report(
  error: unknown,
  isJson: boolean,
  { stderr, signal }: Surroundings,
  context: FailureContext,
): number {
  const isInterrupted = signal.aborted && !(error instanceof CommandError);
  const failure = failureOf(isInterrupted ? signal.reason : error, context);
  stderr.write(isJson ? `${JSON.stringify({ error: failure })}\n` : `${plainOf(failure.message)}\n`);
  return failure.exitCode;
}

function createProgram({
  stdout,
  stderr,
  version,
}: Pick<Surroundings, 'stdout' | 'stderr' | 'version'>): Command {
  return new Command('nightshift')
    .description('Runs fleets of LLM agents through message batches: send files, watch, review, download.')
    .version(version)
    .addOption(
      new Option('--url <address>', 'address of the API (default: NIGHTSHIFT_URL, config, npm start)'),
    )
    .addOption(new Option('--key-file <file>', 'file with the API key (default: NIGHTSHIFT_API_KEY, config)'))
    .option('--json', 'answer in JSON; lists in a JSON line per item')
    .option('--quiet', 'write data and errors only')
    .option('-y, --yes', 'answer yes to every question')
    .option('--no-color', 'no colour and no bar; NO_COLOR does the same')
    .addHelpText(
      'after',
      '\nExit codes: 0 done · 1 some runs failed · 2 wrong usage · 3 API unreachable · 130 interrupted',
    )
    .showHelpAfterError('(--help shows the flags and commands)')
    .configureHelp({ showGlobalOptions: true })
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
    });
}

/** Adds every command by name, and the flags of the commands that the command line may mean. */
async function addCommands(program: Command, args: readonly string[], run: Run): Promise<void> {
  // A completion knows all flags.
  const isAll = args.includes('completion');
  for (const { name, summary, load } of COMMANDS) {
    const command = program.command(name).description(summary);
    if (isAll || args.includes(name)) (await load()).define(command, run);
  }
}

function openSession(
  flags: GlobalFlags & { readonly isPatient: boolean },
  config: Config,
  clients: { readonly createNightshift: typeof createNightshift },
  surroundings: Surroundings,
): Session {
  const out: Output = createOutput({
    ...surroundings,
    isJson: flags.json === true,
    isQuiet: flags.quiet === true,
    hasColor: config.hasColor,
    columns: config.columns,
  });
  let client: Session['client'] | undefined;
  return {
    get client() {
      const retries = flags.isPatient ? {} : { retriesMax: RETRIES_MAX };
      return (client ??= clientOf(config, out, clients.createNightshift, surroundings.signal, retries));
    },
    config,
    out,
    signal: surroundings.signal,
    confirm: async (question) => flags.yes === true || confirm(question, surroundings.signal),
  };
}

function clientOf(
  { url, apiKey, dataDir }: Config,
  out: Output,
  create: typeof createNightshift,
  signal: AbortSignal,
  retries: { readonly retriesMax?: number },
): Session['client'] {
  if (apiKey === undefined)
    throw new CommandError(
      'There is no API key. Set NIGHTSHIFT_API_KEY, or run nightshift config set api_key, or run this in the folder of npm start.' +
        (dataDir === undefined
          ? ''
          : ` The key of ${dataDir} is for its owner, and for the address in it: leave --url, NIGHTSHIFT_URL and the url of nightshift config out.`),
    );
  return create({
    url: url.value,
    apiKey: apiKey.value,
    ...retries,
    // Ctrl-C ends every request, also of a command that does not listen for it.
    fetch: (input, init) => {
      const request = new Request(input, init);
      return globalThis.fetch(request, { signal: AbortSignal.any([request.signal, signal]) });
    },
    onRetry: ({ delayMs, status }) => {
      // The retries of an interrupted command would go on behind its end.
      signal.throwIfAborted();
      out.note(
        `${status === null ? `No answer from ${url.value}` : `The API answered ${status}`}; trying again in ${Math.ceil(delayMs / 1000)} s`,
      );
    },
  });
}

import { parseArgs, type ParseArgsConfig } from 'node:util';

/** A flag of a command: a switch, unless it takes a value. */
export interface Flag {
  readonly what: string;
  /** Name of its value in the usage. */
  readonly value?: string;
  readonly default?: string;
  /** The value must be a whole number from 1 on. */
  readonly whole?: boolean;
  /** The value must be a number above 0. */
  readonly positive?: boolean;
  /** The allowed values. */
  readonly oneOf?: readonly string[];
}

export interface Command<F> {
  /** Name of its npm script. */
  readonly name: string;
  readonly what: string;
  /** Rough duration. */
  readonly takes: string;
  readonly flags: F;
}

type Values<F extends Readonly<Record<string, Flag>>> = {
  readonly [K in keyof F]: F[K] extends { readonly value: string }
    ? F[K] extends { readonly default: string }
      ? string
      : string | undefined
    : boolean;
};

/**
 * Reads the flags of a script. `--help` prints the usage and exits with 0; a wrong flag prints the reason and
 * the usage and exits with 2. `refuse` does so too.
 */
export function readCommandLine<const F extends Readonly<Record<string, Flag>>>(
  command: Command<F>,
): { readonly flags: Values<F>; readonly refuse: (reason: string) => never } {
  const refuse = (reason: string): never => {
    process.stderr.write(`${reason}\n\n${usageOf(command)}`);
    process.exit(2);
  };
  const values = parse(command, refuse);
  if (values['help'] === true) {
    process.stdout.write(usageOf(command));
    process.exit(0);
  }
  for (const [name, flag] of Object.entries(command.flags)) {
    const value = values[name];
    const wrong = typeof value === 'string' ? complaintOf(flag, value) : undefined;
    if (wrong !== undefined) refuse(`--${name} must be ${wrong}, not '${String(value)}'.`);
  }
  return { flags: values as Values<F>, refuse };
}

/** Returns the reason for a refused command line, without Node's advice. */
export function reasonOf(error: unknown): string {
  return (error as Error).message.split('. To specify a positional argument')[0] ?? '';
}

/** Reads an environment variable; an empty one counts as absent. */
export function given(name: string): string | undefined {
  return process.env[name] || undefined;
}

/** Prints an error's message and exits with 1. A stack trace would hide the message. */
export function endWith(error: unknown): never {
  const { message, code } = error as NodeJS.ErrnoException;
  console.error(message || (code ?? String(error)));
  process.exit(1);
}

/** Returns the result of `read`. Its error ends the script. */
export function orEnd<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    endWith(error);
  }
}

/**
 * Reads a whole number.
 * Throws an error with `name` when `text` is not a whole number within the bounds.
 */
export function wholeNumber(name: string, text: string, from: number, to: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= from && value <= to) return value;
  throw new Error(`${name} must be a whole number from ${from} to ${to}, not '${text}'.`);
}

type Given = Readonly<Record<string, string | boolean | undefined>>;

function parse(command: Command<Readonly<Record<string, Flag>>>, refuse: (reason: string) => never): Given {
  const options: NonNullable<ParseArgsConfig['options']> = { help: { type: 'boolean' } };
  for (const [name, flag] of Object.entries(command.flags)) {
    options[name] =
      flag.value === undefined
        ? { type: 'boolean', default: false }
        : { type: 'string', ...(flag.default === undefined ? {} : { default: flag.default }) };
  }
  try {
    return parseArgs({ options }).values as Given;
  } catch (error) {
    return refuse(reasonOf(error));
  }
}

function complaintOf(flag: Flag, value: string): string | undefined {
  if (
    flag.whole === true &&
    !(/^\d+$/.test(value) && Number.isSafeInteger(Number(value)) && Number(value) > 0)
  )
    return 'a whole number from 1 on';
  if (flag.positive === true && !(Number(value) > 0)) return 'a number above 0';
  if (flag.oneOf?.includes(value) === false) return `one of ${flag.oneOf.join(', ')}`;
  return undefined;
}

function usageOf({ name, what, takes, flags }: Command<Readonly<Record<string, Flag>>>): string {
  const run = name === 'start' ? 'npm start' : `npm run ${name}`;
  const rows = Object.entries(flags).map(([flag, { value, oneOf, ...of }]) => {
    const shown = of.default === undefined || of.default === '' ? '' : ` (default ${of.default})`;
    return [`--${flag}${value === undefined ? '' : ` <${oneOf?.join('|') ?? value}>`}`, `${of.what}${shown}`];
  });
  const width = Math.max(0, ...rows.map(([left = '']) => left.length)) + 2;
  return [
    `${run}${rows.length === 0 ? '' : ' -- [flags]'}`,
    what,
    `Takes ${takes}.`,
    ...(rows.length === 0
      ? []
      : ['', ...rows.map(([left = '', right = '']) => `  ${left.padEnd(width)}${right}`)]),
    '',
  ].join('\n');
}

/** An instruction of a Dockerfile. */
export interface Instruction {
  readonly line: number;
  readonly name: string;
  /** `--name=value` words right after the name. */
  readonly flags: ReadonlyMap<string, string>;
  /** The rest, with continued lines joined by a space. */
  readonly rest: string;
}

/** The instructions between a FROM and the next. */
export interface Stage {
  readonly image: string;
  readonly alias: string | null;
  readonly instructions: readonly Instruction[];
}

/** A parsed COPY. */
export interface Copy {
  /** Stage it copies from; null: the build context. */
  readonly from: string | null;
  readonly sources: readonly string[];
  readonly target: string;
}

const KNOWN = new Set([
  'FROM',
  'ARG',
  'ENV',
  'WORKDIR',
  'COPY',
  'RUN',
  'VOLUME',
  'USER',
  'EXPOSE',
  'STOPSIGNAL',
]);
const KNOWN_LATE = new Set(['HEALTHCHECK', 'CMD', 'ENTRYPOINT', 'LABEL', 'SHELL']);

/**
 * Parses a Dockerfile strictly. Refuses unknown or lower-case instructions, stray continuations, heredocs, parser directives,
 * and anything but ARG before the first FROM.
 * Throws: with the line.
 */
export function parseDockerfile(text: string): readonly Stage[] {
  const stages: { image: string; alias: string | null; instructions: Instruction[] }[] = [];
  for (const instruction of instructionsOf(text)) {
    if (instruction.name === 'FROM') {
      const match = /^(\S+)(?: AS ([a-z][a-z0-9-]*))?$/.exec(instruction.rest);
      if (match === null) throw new Error(`line ${instruction.line}: FROM wants "image" or "image AS stage"`);
      stages.push({ image: match[1] ?? '', alias: match[2] ?? null, instructions: [] });
      continue;
    }
    const stage = stages.at(-1);
    if (stage !== undefined) stage.instructions.push(instruction);
    else if (instruction.name !== 'ARG')
      throw new Error(`line ${instruction.line}: ${instruction.name} before FROM`);
  }
  if (stages.length === 0) throw new Error('there is no FROM');
  return stages;
}

function* instructionsOf(text: string): Generator<Instruction> {
  let open: { line: number; parts: string[] } | null = null;
  for (const [index, raw] of text.split('\n').entries()) {
    const line = index + 1;
    const content = raw.trim();
    if (content.startsWith('#')) {
      if (/^#\s*(syntax|escape|check)\s*=/.test(content)) throw new Error(`line ${line}: a parser directive`);
      continue;
    }
    if (content === '') {
      if (open !== null) throw new Error(`line ${line}: an empty line inside an instruction`);
      continue;
    }
    open ??= { line, parts: [] };
    const continued = content.endsWith('\\');
    open.parts.push(continued ? content.slice(0, -1).trim() : content);
    if (continued) continue;
    yield toInstruction(open.line, open.parts.join(' '));
    open = null;
  }
  if (open !== null) throw new Error(`line ${open.line}: the instruction does not end`);
}

function toInstruction(line: number, text: string): Instruction {
  const [name = '', ...words] = text.split(/\s+/);
  if (!KNOWN.has(name) && !KNOWN_LATE.has(name)) throw new Error(`line ${line}: ${name} is no instruction`);
  const flags = new Map<string, string>();
  while (words[0]?.startsWith('--') === true) {
    const match = /^--([a-z-]+)=(.+)$/.exec(words.shift() ?? '');
    if (match === null) throw new Error(`line ${line}: a flag without a value`);
    flags.set(match[1] ?? '', match[2] ?? '');
  }
  const rest = words.join(' ');
  if (rest === '') throw new Error(`line ${line}: ${name} of nothing`);
  if (name === 'RUN' && rest.includes('<<')) throw new Error(`line ${line}: a heredoc`);
  return { line, name, flags, rest };
}

/** Returns the COPYs of a stage. */
export function copiesOf(stage: Stage): readonly Copy[] {
  return stage.instructions
    .filter(({ name }) => name === 'COPY')
    .map(({ line, flags, rest }) => {
      const words = rest.split(' ');
      const target = words.pop();
      if (target === undefined || words.length === 0)
        throw new Error(`line ${line}: COPY wants a source and a target`);
      if (words.length > 1 && !target.endsWith('/'))
        throw new Error(`line ${line}: several sources want a folder`);
      return { from: flags.get('from') ?? null, sources: words, target };
    });
}

/** Returns the environment of a stage. Values must have no quotes or spaces. */
export function environmentOf(stage: Stage): Readonly<Record<string, string>> {
  const environment: Record<string, string> = {};
  for (const { name, line, rest } of stage.instructions) {
    if (name !== 'ENV') continue;
    for (const pair of rest.split(' ')) {
      const match = /^([A-Z][A-Z0-9_]*)=([^'"$]+)$/.exec(pair);
      if (match === null) throw new Error(`line ${line}: ENV wants NAME=value, not ${pair}`);
      environment[match[1] ?? ''] = match[2] ?? '';
    }
  }
  return environment;
}

/** Returns the last instruction with this name in a stage, which applies, or undefined. */
export function lastOf(stage: Stage, name: string): Instruction | undefined {
  return stage.instructions.findLast((instruction) => instruction.name === name);
}

/** Tells whether a path is outside of the build context. Later patterns win; a folder's pattern includes its content. */
export function isIgnored(path: string, dockerignore: string): boolean {
  let ignored = false;
  for (const raw of dockerignore.split('\n')) {
    const pattern = raw.trim();
    if (pattern === '' || pattern.startsWith('#')) continue;
    const body = pattern.replace(/^!/, '');
    const source = body
      .split('/')
      .map((part) =>
        part === '**' ? '.*' : part.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '[^/]*'),
      )
      .join('/')
      .replaceAll('.*/', '(?:.*/)?');
    if (new RegExp(`^${source}(?:/.*)?$`).test(path)) ignored = !pattern.startsWith('!');
  }
  return ignored;
}

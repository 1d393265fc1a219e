/**
 * Regular expressions of JSON schemas, matched in time proportional to pattern × text.
 * Schemas come from users and texts from a model. JavaScript's matcher backtracks, so `^(a+)+$` and thirty letters
 * would stop a worker. Here the pattern becomes a small program, and no (instruction, position) is visited twice.
 */

/** A single character, matched by JavaScript's regular expressions: `a`, `.`, `\d`, `[^x-z]`, `\p{L}`. */
interface CharacterNode {
  readonly kind: 'one';
  readonly matches: (character: string) => boolean;
}
interface Assertion {
  readonly kind: 'assert';
  readonly at: 'start' | 'end' | 'word_boundary' | 'no_word_boundary';
}
interface Look {
  readonly kind: 'look';
  readonly program: Program;
  readonly negative: boolean;
}
type Node =
  | CharacterNode
  | Assertion
  | Look
  | { readonly kind: 'sequence'; readonly nodes: readonly Node[] }
  | { readonly kind: 'choice'; readonly nodes: readonly Node[] }
  | { readonly kind: 'repeat'; readonly node: Node; readonly min: number; readonly max: number };

type Instruction =
  CharacterNode | Assertion | Look | { readonly kind: 'jump'; readonly targets: readonly number[] };
type Program = readonly Instruction[];

/** Longest pattern, in UTF-16 units, and the most instructions of its program. */
const PATTERN_CHARS_MAX = 2000;
const PROGRAM_SIZE_MAX = 10_000;
/** States that the tests of a budget may visit, about a second, and bytes for the marks of a test. */
export const PATTERN_STATES_MAX = 20_000_000;
const MARK_BYTES_MAX = 64_000_000;
/** Bytes cleared in the time of a state. */
const MARK_BYTES_PER_STATE = 64;

/** Remaining cost of matching, shared by tests. */
export interface PatternBudget {
  states_left: number;
}

/** A compiled pattern for ajv's `code.regExp` option. */
export interface LinearPattern {
  /**
   * Returns whether the pattern matches anywhere in the text.
   * Throws: RangeError when the budget is used up.
   */
  readonly test: (text: string) => boolean;
  /** Distinct for distinct patterns: ajv's key. */
  readonly toString: () => string;
}

/**
 * Compiles a pattern whose tests use up `budget`.
 * Throws: SyntaxError for a pattern that is malformed, too large or not linear: back-references and look-behind.
 */
export function compilePattern(source: string, budget: PatternBudget): LinearPattern {
  if (source.length > PATTERN_CHARS_MAX) {
    throw new SyntaxError(`a pattern may have at most ${PATTERN_CHARS_MAX} characters`);
  }
  assertWellFormed(source);
  const program = toProgram(parse(source));
  return {
    test: (text) => testText(program, text, budget),
    toString: () => `/${source}/`,
  };
}

/** Checks the syntax with JavaScript's parser. JSON Schema asks for `u`; many schemas need it lenient. */
function assertWellFormed(source: string): void {
  try {
    new RegExp(source, 'u');
  } catch {
    new RegExp(source);
  }
}

const PIECE =
  /\\(?:u\{[0-9a-fA-F]+\}|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[a-zA-Z]|[pP]\{[^}]*\}|[^])|\[(?:\\[^]|[^\]\\])*\]|[^]/uy;
const QUANTIFIER = /(?:[*+?]|\{(\d+)(?:(,)(\d*))?\})\??/y;
const GROUP = /\((?:\?(?::|<[^=!>][^>]*>|(=)|(!)))?/y;

function parse(source: string): Node {
  let at = 0;
  let lookSize = 0;

  function take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = at;
    const match = pattern.exec(source);
    if (match !== null) at = pattern.lastIndex;
    return match;
  }

  function choice(): Node {
    const nodes = [sequence()];
    while (source[at] === '|') {
      at++;
      nodes.push(sequence());
    }
    return nodes.length === 1 && nodes[0] !== undefined ? nodes[0] : { kind: 'choice', nodes };
  }

  function sequence(): Node {
    const nodes: Node[] = [];
    while (at < source.length && source[at] !== '|' && source[at] !== ')') nodes.push(quantified(atom()));
    return { kind: 'sequence', nodes };
  }

  function quantified(node: Node): Node {
    const match = take(QUANTIFIER);
    if (match === null) return node;
    const [text, min, comma, max] = match;
    if (text.startsWith('*')) return { kind: 'repeat', node, min: 0, max: Infinity };
    if (text.startsWith('+')) return { kind: 'repeat', node, min: 1, max: Infinity };
    if (text.startsWith('?')) return { kind: 'repeat', node, min: 0, max: 1 };
    const most = comma === undefined ? min : max === '' ? Infinity : max;
    return { kind: 'repeat', node, min: Number(min), max: Number(most) };
  }

  function atom(): Node {
    if (source[at] === '(') return group();
    const piece = take(PIECE)?.[0] ?? '';
    if (piece === '^') return { kind: 'assert', at: 'start' };
    if (piece === '$') return { kind: 'assert', at: 'end' };
    if (piece === '\\b') return { kind: 'assert', at: 'word_boundary' };
    if (piece === '\\B') return { kind: 'assert', at: 'no_word_boundary' };
    if (/^\\(?:[1-9]|k$)/.test(piece))
      throw new SyntaxError('back-references are not supported in a pattern');
    return { kind: 'one', matches: characterTest(piece) };
  }

  function group(): Node {
    const start = at;
    const match = take(GROUP);
    if (match === null || source.startsWith('(?', start) === (match[0] === '(')) {
      throw new SyntaxError('look-behind and inline flags are not supported in a pattern');
    }
    const node = choice();
    at++;
    if (match[1] === undefined && match[2] === undefined) return node;
    const program = toProgram(node);
    lookSize += program.length;
    if (lookSize > PROGRAM_SIZE_MAX) throw tooLarge();
    return { kind: 'look', program, negative: match[2] !== undefined };
  }

  return choice();
}

const ASCII_SIZE = 128;

/** Makes a character test. A plain character is compared; JavaScript judges the rest, once for each ASCII character. */
function characterTest(piece: string): (character: string) => boolean {
  if (piece !== '.' && Array.from(piece).length === 1) return (character) => character === piece;
  const native = pieceRegExp(piece);
  const known: boolean[] = [];
  return (character) => {
    const code = character.charCodeAt(0);
    if (code >= ASCII_SIZE) return native.test(character);
    return (known[code] ??= native.test(character));
  };
}

function pieceRegExp(piece: string): RegExp {
  try {
    return new RegExp(`^${piece}$`, 'u');
  } catch {
    return new RegExp(`^${piece}$`);
  }
}

function tooLarge(): SyntaxError {
  return new SyntaxError('the pattern is too large; use maxLength or maxItems for large counts');
}

function toProgram(node: Node): Program {
  const program: Instruction[] = [];

  function emit(instruction: Instruction): number {
    if (program.length >= PROGRAM_SIZE_MAX) throw tooLarge();
    return program.push(instruction) - 1;
  }

  /** Emits `min` copies of the node, then a loop or optional copies: `x{1,3}` is `x(x(x)?)?`. */
  function emitRepeat(node: Node, min: number, max: number): void {
    for (let i = 0; i < min; i++) {
      const size = program.length;
      emitNode(node);
      if (program.length === size) break;
    }
    const forks: number[] = [];
    for (let i = min; i < (max === Infinity ? min + 1 : max); i++) {
      forks.push(emit({ kind: 'jump', targets: [] }));
      emitNode(node);
    }
    if (max === Infinity) emit({ kind: 'jump', targets: [...forks] });
    for (const fork of forks) program[fork] = { kind: 'jump', targets: [program.length, fork + 1] };
  }

  function emitNode(current: Node): void {
    switch (current.kind) {
      case 'one':
      case 'assert':
      case 'look':
        emit(current);
        break;
      case 'sequence':
        for (const child of current.nodes) emitNode(child);
        break;
      case 'choice': {
        const fork = emit({ kind: 'jump', targets: [] });
        const starts: number[] = [];
        const ends: number[] = [];
        for (const child of current.nodes) {
          starts.push(program.length);
          emitNode(child);
          ends.push(emit({ kind: 'jump', targets: [] }));
        }
        program[fork] = { kind: 'jump', targets: starts };
        for (const end of ends) program[end] = { kind: 'jump', targets: [program.length] };
        break;
      }
      case 'repeat':
        emitRepeat(current.node, current.min, current.max);
        break;
    }
  }

  emitNode(node);
  return program;
}

/** The text of a test, and its state. */
interface Matching {
  readonly text: readonly string[];
  readonly budget: PatternBudget;
  /** Lookaheads run from many positions; states are marked with the run number instead of cleared. */
  runNumber: number;
  readonly marks: Map<Program, Uint32Array>;
}

function testText(program: Program, text: string, budget: PatternBudget): boolean {
  const matching: Matching = {
    text: Array.from(text),
    budget,
    runNumber: 1,
    marks: new Map(),
  };
  const anchored = program[0]?.kind === 'assert' && program[0].at === 'start';
  const marks = new Uint8Array(countStates(program, matching, Uint8Array.BYTES_PER_ELEMENT));
  return run(program, matching, marks, 1, 0, anchored ? 0 : matching.text.length);
}

function looksAhead(program: Program, matching: Matching, position: number): boolean {
  let marks = matching.marks.get(program);
  if (marks === undefined) {
    marks = new Uint32Array(countStates(program, matching, Uint32Array.BYTES_PER_ELEMENT));
    matching.marks.set(program, marks);
  }
  return run(program, matching, marks, ++matching.runNumber, position, position);
}

function countStates(program: Program, matching: Matching, bytesPerState: number): number {
  // The extra state is the end of the program, where it has matched.
  const states = (program.length + 1) * (matching.text.length + 1);
  const bytes = states * bytesPerState;
  matching.budget.states_left -= bytes / MARK_BYTES_PER_STATE;
  if (bytes > MARK_BYTES_MAX || matching.budget.states_left <= 0) throw tooMuch();
  return states;
}

function tooMuch(): RangeError {
  return new RangeError('a text is too long to be checked against its pattern');
}

/** Returns whether the program matches from any start in `firstStart … lastStart`. */
function run(
  program: Program,
  matching: Matching,
  marks: Uint8Array | Uint32Array,
  mark: number,
  firstStart: number,
  lastStart: number,
): boolean {
  const { text, budget } = matching;
  const width = text.length + 1;
  const pending: number[] = [];

  function visit(index: number, position: number): void {
    const state = index * width + position;
    if (marks[state] === mark) return;
    marks[state] = mark;
    if (budget.states_left-- <= 0) throw tooMuch();
    pending.push(state);
  }

  for (let start = firstStart; start <= lastStart; start++) {
    visit(0, start);
    for (let state = pending.pop(); state !== undefined; state = pending.pop()) {
      const position = state % width;
      const index = (state - position) / width;
      const instruction = program[index];
      if (instruction === undefined) return true;
      if (instruction.kind === 'jump') {
        for (const target of instruction.targets) visit(target, position);
      } else if (instruction.kind === 'one') {
        const character = text[position];
        if (character !== undefined && instruction.matches(character)) visit(index + 1, position + 1);
      } else if (
        instruction.kind === 'assert'
          ? holds(instruction, text, position)
          : looksAhead(instruction.program, matching, position) !== instruction.negative
      ) {
        visit(index + 1, position);
      }
    }
  }
  return false;
}

function holds(assertion: Assertion, text: readonly string[], position: number): boolean {
  if (assertion.at === 'start') return position === 0;
  if (assertion.at === 'end') return position === text.length;
  const boundary = isWord(text[position - 1]) !== isWord(text[position]);
  return boundary === (assertion.at === 'word_boundary');
}

function isWord(character: string | undefined): boolean {
  return character !== undefined && /^\w$/.test(character);
}

/** Names the places of an error in the file of the user. */
export type InFileTerms = (text: string) => string;

/** How the items that were sent stand in the file. */
export interface Places {
  /** Returns the line of the file; null for a sent line that the file has not. `lines` count from 1, the others from 0. */
  readonly lineOf: (list: 'lines' | 'items', place: number) => number | null;
  /** Returns the column of a field. Absent: the file is no table. */
  readonly columnOf?: (field: string) => string;
}

/** By the flags of a command: its errors come from elsewhere, and end in the program that has given the flags. */
const places = new WeakMap<object, Places>();

/** Keeps how the file of a command names its places. */
export function keepPlaces(flags: object, kept: Places): void {
  places.set(flags, kept);
}

/** Returns how errors of a command are told; without a file of work, as they are. */
export function termsOf(flags: object): InFileTerms {
  const kept = places.get(flags);
  return kept === undefined ? (text) => text : (text) => inFileTerms(text, kept);
}

const PLACE = /\/(lines|requests|inputs)\/(\d+)((?:\/[^/\s:.]+)*)/g;

function inFileTerms(text: string, { lineOf, columnOf }: Places): string {
  return text
    .replace(/^Line (\d+)/, (_, number: string) => `Line ${lineOf('lines', Number(number)) ?? number}`)
    .replaceAll(PLACE, (_, list: string, number: string, rest: string) => {
      const line = lineOf(list === 'lines' ? 'lines' : 'items', Number(number));
      // Fields of flags stand in a line of their own.
      if (line === null) return rest.replace(/^\/batch/, '');
      if (columnOf === undefined) return `/lines/${line}${rest}`;
      const field = rest.replace(/^\/(variables\/)?/, '');
      return `Line ${line}${field === '' ? '' : `, column ${columnOf(field)}`}`;
    });
}

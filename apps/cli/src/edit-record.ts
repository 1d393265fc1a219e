import { isDeepStrictEqual } from 'node:util';
import type { Command } from 'commander';
import { editText } from './editor.ts';
import { CommandError } from './failure.ts';
import { parseJsonObject, readJsonObject, type JsonObject } from './json-input.ts';
import { gather } from './parse.ts';
import type { Session } from './session.ts';
import { listOf } from './words.ts';

/** Flags of a command that edits a record. */
export interface EditFlags {
  readonly set?: readonly string[];
}

/** A record that is edited as JSON. */
export interface Editable {
  /** For messages and the name of the file. */
  readonly id: string;
  /** Fields that can be changed, with their present values. */
  readonly fields: JsonObject;
  /** Fields of which null is a value. In other fields, the API takes null for no change. */
  readonly nullable?: readonly string[];
  /** Fields that the API takes beside the shown ones. */
  readonly also?: readonly string[];
}

/** Adds the arguments and flags of an edit. */
export function addEditFlags(command: Command, id: string): Command {
  return command
    .argument(`<${id}>`, `id of the ${id}`)
    .argument('[file]', 'JSON with the fields to change, or - for standard input (default: opens $EDITOR)')
    .option('--set <field=value>', 'field to change; the value is JSON, else text; may be repeated', gather);
}

/**
 * Returns the fields to change: of `--set`, of the file, or of the user's editor. Undefined if none differs; a note says so.
 * Throws: a usage error for a field that cannot be changed.
 */
export async function changesOf(
  session: Session,
  editable: Editable,
  { set }: EditFlags,
  file: string | undefined,
): Promise<JsonObject | undefined> {
  const wanted = {
    ...(file === undefined ? {} : await readJsonObject(file)),
    ...parseSettings(set ?? []),
  };
  const isGiven = file !== undefined || set !== undefined;
  const changes = changedFields(editable, isGiven ? wanted : await editFields(session, editable));
  if (Object.keys(changes).length > 0) return changes;
  session.out.note(`${editable.id} is unchanged.`);
  return undefined;
}

async function editFields({ config }: Session, { id, fields }: Editable): Promise<JsonObject> {
  if (!process.stdin.isTTY)
    throw new CommandError(
      'No terminal for an editor here. Name a file with the fields, - for standard input, or add --set field=value.',
    );
  const text = await editText(config.editor, `${JSON.stringify(fields, null, 2)}\n`, `${id}.json`);
  const edited = parseJsonObject(text, 'The edited text');
  const missing = Object.keys(fields).filter((name) => !(name in edited));
  if (missing.length > 0)
    throw new CommandError(
      `The fields ${listOf(missing)} cannot be removed. Keep them, or give them another value; nothing was changed.`,
    );
  return edited;
}

/** Returns the fields with another value than the record's. */
export function changedFields(
  { id, fields, nullable = [], also = [] }: Editable,
  wanted: JsonObject,
): JsonObject {
  const unknown = Object.keys(wanted).filter((name) => !(name in fields) && !also.includes(name));
  if (unknown.length > 0)
    throw new CommandError(
      `${listOf(unknown)} cannot be changed here. The fields are ${listOf([...Object.keys(fields), ...also])}; nothing was changed.`,
    );
  const changes = Object.entries(wanted).filter(([name, value]) => !isDeepStrictEqual(value, fields[name]));
  const cleared = changes.filter(([name, value]) => value === null && !nullable.includes(name));
  if (cleared.length > 0)
    throw new CommandError(
      `${listOf(cleared.map(([name]) => name))} of ${id} cannot be null: the API takes null for no change. Give another value; nothing was changed.`,
    );
  return Object.fromEntries(changes);
}

/** Parses `field=value`; a value that is no JSON is a text. */
export function parseSettings(settings: readonly string[]): JsonObject {
  return Object.fromEntries(
    settings.map((setting) => {
      const mark = setting.indexOf('=');
      if (mark < 1)
        throw new CommandError(`'${setting}' sets no field. Write field=value, as in name=nightly.`);
      return [setting.slice(0, mark), parseValue(setting.slice(mark + 1))];
    }),
  );
}

function parseValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

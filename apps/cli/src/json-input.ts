import { CommandError } from './failure.ts';
import { inputOf, textOfInput } from './input/open-input.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** Reads a text from a file, or from standard input for `-`. */
export function readText(file: string): Promise<string> {
  return textOfInput(inputOf(file, 'json'));
}

/** Reads a JSON object from a file, or from standard input for `-`. Throws: a usage error if it is none. */
export async function readJsonObject(file: string): Promise<JsonObject> {
  return parseJsonObject(await readText(file), file === '-' ? 'Standard input' : file);
}

/** Parses a JSON object. Throws: a usage error with the place of the mistake. */
export function parseJsonObject(text: string, name: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CommandError(
      `${name} is no JSON: ${(error as Error).message}. Correct it; nothing was changed.`,
    );
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw new CommandError(`${name} is no JSON object. Write one such as {"name": "…"}; nothing was changed.`);
}

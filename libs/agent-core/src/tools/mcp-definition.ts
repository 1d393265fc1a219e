import { isJsonObject, nestsTooDeep, type Json, type JsonObject } from '../base/json.ts';

/** The parts of an MCP server's tool that an approval covers. */
export interface McpDefinition {
  /** Its name on the server. */
  readonly name: string;
  readonly title: string | null;
  readonly description: string;
  readonly input_schema: JsonObject;
  readonly output_schema: JsonObject | null;
  /** Hints of the server about effects. Nothing follows from them. */
  readonly annotations: JsonObject | null;
}

/** A place where two definitions differ. */
export interface McpDifference {
  /** JSON Pointer into the definition. */
  readonly path: string;
  /** Absent: the approved definition has nothing there. */
  readonly approved?: Json | undefined;
  /** Absent: the offered definition has nothing there. */
  readonly offered?: Json | undefined;
}

/** Maximum differences that are listed. */
const DIFFERENCES_MAX = 100;

/** Writes a JSON value with sorted keys, so that equal values have equal texts. */
export function canonicalJson(value: Json): string {
  return JSON.stringify(value, (_key, part: Json) =>
    isJsonObject(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
      : part,
  );
}

/** Writes a definition as canonical JSON. Throws: RangeError if it nests deeper than may be stored. */
export function definitionText(definition: McpDefinition): string {
  const text = canonicalJson(definition as unknown as JsonObject);
  if (nestsTooDeep(text)) throw new RangeError('the definition of a tool nests too deep');
  return text;
}

/** Lists the places where the offered definition differs from the approved one, the deepest place of each difference. */
export function diffDefinitions(approved: McpDefinition, offered: McpDefinition): readonly McpDifference[] {
  const differences: McpDifference[] = [];
  compare('', approved as unknown as JsonObject, offered as unknown as JsonObject, differences);
  return differences.slice(0, DIFFERENCES_MAX);
}

function compare(
  path: string,
  approved: Json | undefined,
  offered: Json | undefined,
  found: McpDifference[],
): void {
  if (found.length >= DIFFERENCES_MAX) return;
  if (isJsonObject(approved) && isJsonObject(offered)) {
    for (const key of new Set([...Object.keys(approved), ...Object.keys(offered)]))
      compare(`${path}/${escaped(key)}`, own(approved, key), own(offered, key), found);
    return;
  }
  if (approved === offered) return;
  if (approved !== undefined && offered !== undefined && canonicalJson(approved) === canonicalJson(offered))
    return;
  found.push({ path, approved, offered });
}

function own(value: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

function escaped(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

export const description =
  'Sorts version numbers by semantic versioning precedence, oldest first, and names the latest. ' +
  'Strings that are no semantic version are returned in `invalid` and take no part.';

export const parameters = {
  type: 'object',
  properties: {
    versions: {
      type: 'array',
      items: { type: 'string', maxLength: 256 },
      minItems: 1,
      maxItems: 1000,
      description: 'Version numbers in any order, with or without a leading "v".',
    },
  },
  required: ['versions'],
  additionalProperties: false,
} as const;

export const sideEffects = 'none';

interface Version {
  text: string;
  core: bigint[];
  prerelease: string[];
}

/** The grammar of semver.org 2.0.0, with an optional leading `v`. */
const grammar =
  /^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-z-][\da-z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-z-][\da-z-]*))*))?(?:\+[\da-z-]+(?:\.[\da-z-]+)*)?$/i;

/** Compares versions. `latest` is null without a valid version; a release is later than its prereleases. */
export function run(args: Record<string, unknown>): {
  sorted: string[];
  latest: string | null;
  invalid: string[];
} {
  const versions = args['versions'];
  if (!Array.isArray(versions)) throw new TypeError('versions: expected a list of strings.');
  const valid: Version[] = [];
  const invalid: string[] = [];
  for (const given of versions) {
    const text = String(given).trim();
    const match = grammar.exec(text);
    if (match === null) invalid.push(text);
    else valid.push({ text, core: match.slice(1, 4).map(BigInt), prerelease: match[4]?.split('.') ?? [] });
  }
  const sorted = valid.sort(byPrecedence).map((version) => version.text);
  return { sorted, latest: sorted.at(-1) ?? null, invalid };
}

function byPrecedence(a: Version, b: Version): number {
  for (const [i, left] of a.core.entries()) {
    const right = b.core[i] ?? 0n;
    if (left !== right) return left < right ? -1 : 1;
  }
  if (a.prerelease.length === 0 || b.prerelease.length === 0)
    return b.prerelease.length - a.prerelease.length;
  for (const [i, left] of a.prerelease.entries()) {
    const right = b.prerelease[i];
    if (right === undefined) return 1;
    if (left !== right) return compareIdentifiers(left, right);
  }
  return a.prerelease.length - b.prerelease.length;
}

/**
 * Compares prerelease parts: numbers sort before words and compare as numbers; words compare by character.
 */
function compareIdentifiers(a: string, b: string): number {
  const [aIsNumber, bIsNumber] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (aIsNumber !== bIsNumber) return aIsNumber ? -1 : 1;
  if (aIsNumber) return BigInt(a) < BigInt(b) ? -1 : 1;
  return a < b ? -1 : 1;
}

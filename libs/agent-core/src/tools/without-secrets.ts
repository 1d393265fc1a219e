/** Replaces each secret in a text by its name, as it is and as in JSON. `secrets`: values by name. */
export function withoutSecrets(text: string, secrets: Readonly<Record<string, string>>): string {
  let clean = text;
  // Longer ones first: a secret may be a part of another.
  const byLength = Object.entries(secrets).toSorted(([, a], [, b]) => b.length - a.length);
  for (const [name, value] of byLength) {
    if (value === '') continue;
    for (const form of [value, JSON.stringify(value).slice(1, -1)])
      clean = clean.replaceAll(form, `[secret ${name}]`);
  }
  return clean;
}

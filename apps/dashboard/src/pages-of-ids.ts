/** First part of an id, and the address of what it names. */
const PLACES: Readonly<Record<string, string>> = {
  job: '/batches/',
  run: '/runs/',
  agent: '/memories/',
  block: '/blocks/',
  schedule: '/schedules/',
};

const ID = /^(?<kind>[a-z]+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Returns the address of the page of an id; null if it is no id, or of a kind without a page. A step is on the page of its run. */
export function pageOfId(text: string): string | null {
  const id = text.trim().toLowerCase();
  const kind = ID.exec(id)?.groups?.['kind'];
  if (kind === 'step') return `${PLACES['run'] ?? ''}${runOfStep(id)}`;
  const place = kind === undefined ? undefined : PLACES[kind];
  return place === undefined ? null : `${place}${id}`;
}

/** The last six digits of a step's id are its place in its run. */
function runOfStep(id: string): string {
  return `${id.replace('step-', 'run-').slice(0, -6)}000000`;
}

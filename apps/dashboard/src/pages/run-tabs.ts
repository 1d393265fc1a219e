/** Views of a run, as in the address. */
export const RUN_TABS = [
  { tab: 'conversation', name: 'Conversation' },
  { tab: 'request', name: 'What the model saw' },
  { tab: 'changes', name: 'Memory changes' },
  { tab: 'json', name: 'JSON' },
] as const;

export type RunTab = (typeof RUN_TABS)[number]['tab'];

interface RunView {
  readonly tab?: RunTab;
  /** The step whose request is shown; the last by default. */
  readonly step?: string;
}

/** Reads the view of an address; an unknown one is the conversation. */
export function readRunTab({ tab, step }: Readonly<Record<string, unknown>>): RunView {
  const known = RUN_TABS.find((entry) => entry.tab === tab);
  if (known === undefined) return {};
  return { tab: known.tab, ...(known.tab === 'request' && typeof step === 'string' && { step }) };
}

/** A record of one request to the API port. */
export interface JournalEntry {
  readonly seq: number;
  /** Time by the simulator's clock, as RFC 3339. */
  readonly at: string;
  readonly op: string;
  /** Ordinal of this request among those of its operation. */
  readonly op_seq: number;
  readonly method: string;
  readonly path: string;
  /** Without credentials. */
  readonly headers: Readonly<Record<string, string>>;
  /** Retry count sent by the official client; null from other clients. */
  readonly retry_count: number | null;
  readonly request_id: string;
  request_bytes: number;
  /** Null under work, or without a status line. */
  status: number | null;
  response_bytes: number;
  outcome: 'pending' | 'answered' | 'dropped' | 'hung' | 'cut' | 'client_aborted';
  /** The rule that acted; null without one. */
  rule_id: string | null;
  /** The batch that this request created or changed, whatever the answer was. */
  committed: string | null;
  error_type: string | null;
}

/** The last requests, oldest first, up to a fixed number. */
export interface Journal {
  open(entry: Omit<JournalEntry, 'seq'>): JournalEntry;
  /** Returns the entries with a greater `seq`. */
  since(seq: number, limit: number): { entries: JournalEntry[]; last_seq: number; dropped: number };
}

const ENTRIES_KEPT = 20_000;
const SECRET_HEADERS = new Set(['authorization', 'x-api-key', 'cookie', 'proxy-authorization']);

/** Copies the request headers without credentials. */
export function journalHeaders(headers: NodeJS.Dict<string | string[]>): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !SECRET_HEADERS.has(name)) kept[name] = String(value);
  }
  return kept;
}

export function createJournal(): Journal {
  let entries: JournalEntry[] = [];
  let nextSeq = 1;
  let dropped = 0;
  return {
    open(fields) {
      const entry: JournalEntry = { seq: nextSeq++, ...fields };
      entries.push(entry);
      if (entries.length > ENTRIES_KEPT * 1.2) {
        dropped += entries.length - ENTRIES_KEPT;
        entries = entries.slice(-ENTRIES_KEPT);
      }
      return entry;
    },
    since(seq, limit) {
      const found = entries.filter((entry) => entry.seq > seq).slice(0, limit);
      return { entries: found, last_seq: found.at(-1)?.seq ?? Math.max(seq, 0), dropped };
    },
  };
}

import { indentJson } from '../parts/json-text.ts';
import { LongText } from '../parts/long-text.tsx';
import { count } from '../parts/numbers.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { Time } from '../parts/time.tsx';
import type { CallEntry, Entry, TextEntry } from './run-entries.ts';

const SPEAKERS: Readonly<Record<TextEntry['kind'], string>> = {
  user: 'User',
  assistant: 'Agent',
  system: 'System',
  thought: 'Thought',
};

/** Shows an entry of a conversation. */
export function Turn({ entry, isOpen }: { readonly entry: Entry; readonly isOpen: boolean }) {
  if (entry.kind === 'call') return <CallTurn call={entry} isOpen={isOpen} />;
  const { kind, text, at, key } = entry;
  if (kind === 'thought')
    return (
      <details className="thought">
        <summary className="muted">Thought · {count(text.length)} characters</summary>
        <LongText text={text} fileName={`${key}.txt`} />
      </details>
    );
  return (
    <div className={`said said-${kind}`}>
      <p className="said-head small muted">
        <strong>{SPEAKERS[kind]}</strong> <Time at={at} />
      </p>
      <LongText text={text} fileName={`${key}.txt`} />
    </div>
  );
}

/** Shows a tool call: its arguments, and beside them its result. */
function CallTurn({ call, isOpen }: { readonly call: CallEntry; readonly isOpen: boolean }) {
  const { name, result } = call;
  const missing = isOpen ? 'No result yet.' : 'The call got no result.';
  return (
    <section className="call" aria-label={`Call of ${name}`}>
      <p className="call-head">
        <code>{name}</code>
        {result === null ? (
          <StateMark state={isOpen ? 'acting' : 'skipped'} label={isOpen ? 'open' : 'not made'} />
        ) : (
          <StateMark state={result.isError ? 'failed' : 'done'} />
        )}
      </p>
      <div className="call-sides">
        <div>
          <h3 className="muted">Arguments</h3>
          <LongText text={indentJson(call.arguments)} fileName={`${name}-arguments.json`} isCode />
        </div>
        <div>
          <h3 className="muted">Result</h3>
          {result === null ? (
            <p className="muted">{missing}</p>
          ) : (
            <LongText text={indentJson(result.text)} fileName={`${name}-result.txt`} isCode />
          )}
        </div>
        <Output title="Output" text={result?.stdout ?? null} fileName={`${name}-stdout.txt`} />
        <Output title="Error output" text={result?.stderr ?? null} fileName={`${name}-stderr.txt`} />
      </div>
    </section>
  );
}

interface OutputProps {
  readonly title: string;
  readonly text: string | null;
  readonly fileName: string;
}

/** Shows captured output of a call, if there is any. */
function Output({ title, text, fileName }: OutputProps) {
  if (text === null) return null;
  return (
    <div>
      <h3 className="muted">{title}</h3>
      <LongText text={text} fileName={fileName} isCode />
    </div>
  );
}

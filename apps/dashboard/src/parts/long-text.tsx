import { useState } from 'react';
import { count } from './numbers.tsx';
import { saveAsFile } from './save-as-file.ts';

interface LongTextProps {
  readonly text: string;
  /** Name of the file in which a text is saved that is too long to show. */
  readonly fileName: string;
  readonly isCode?: boolean;
}

/** Shown at first. Units: lines, characters. */
const LINES_FIRST = 100;
const CHARS_FIRST = 8_000;
/** Shown at most: more would freeze the page. Unit: characters. */
const CHARS_MAX = 100_000;

/** Shows a text of any length: cut at first, then up to a bound; the whole of it as a file. */
export function LongText({ text, fileName, isCode = false }: LongTextProps) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? text.slice(0, CHARS_MAX) : firstLines(text);
  const isCut = shown.length < text.length;
  return (
    <>
      {isCode ? <pre className="code">{shown}</pre> : <p className="prose">{shown}</p>}
      {isCut && (
        <p className="row small muted cut-note">
          <span>
            {count(shown.length)} of {count(text.length)} characters
          </span>
          {isWhole ? (
            <button type="button" className="button" onClick={() => saveAsFile(text, fileName)}>
              Save all as a file
            </button>
          ) : (
            <button type="button" className="button" onClick={() => setWhole(true)}>
              {text.length > CHARS_MAX ? 'Show more' : 'Show all'}
            </button>
          )}
        </p>
      )}
    </>
  );
}

/** Returns the first lines of a text, and no more than the first characters. */
function firstLines(text: string): string {
  const start = text.slice(0, CHARS_FIRST);
  let end = -1;
  for (let line = 0; line < LINES_FIRST; line++) {
    end = start.indexOf('\n', end + 1);
    if (end === -1) return start;
  }
  return start.slice(0, end);
}

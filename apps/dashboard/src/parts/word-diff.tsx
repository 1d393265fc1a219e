import { useEffect, useState } from 'react';

interface WordDiffProps {
  readonly before: string;
  readonly after: string;
}

interface Piece {
  readonly value: string;
  readonly added: boolean;
  readonly removed: boolean;
}

/** Longer texts are compared by lines: words would take seconds. Unit: characters. */
const WORDS_MAX = 20_000;

/** Shows what changed between two texts, by words. The comparison is loaded when it is first needed. */
export function WordDiff({ before, after }: WordDiffProps) {
  const [pieces, setPieces] = useState<readonly Piece[] | null>(null);
  useEffect(() => {
    let isGone = false;
    void import('diff').then(({ diffLines, diffWordsWithSpace }) => {
      const isLong = before.length + after.length > WORDS_MAX;
      if (!isGone) setPieces(isLong ? diffLines(before, after) : diffWordsWithSpace(before, after));
    });
    return () => {
      isGone = true;
    };
  }, [before, after]);
  if (pieces === null) return <pre className="code diff">{after}</pre>;
  return (
    <pre className="code diff">
      {pieces.map(({ value, added, removed }, place) => {
        // A piece has no name but its place.
        const key = `${place}`;
        if (added)
          return (
            <ins key={key} className="diff-added">
              {value}
            </ins>
          );
        return removed ? (
          <del key={key} className="diff-removed">
            {value}
          </del>
        ) : (
          <span key={key}>{value}</span>
        );
      })}
    </pre>
  );
}

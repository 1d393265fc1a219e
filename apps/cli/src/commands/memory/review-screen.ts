import type { HeldChange } from '@nightshift/client';
import { renderUnified, renderWordDiff, type DiffView, type Paint } from '../../diff-view.ts';
import { plainOf } from '../../table.ts';
import { countOfNoun } from '../../words.ts';
import { widthOf } from '../../word-diff.ts';
import { sizesOf } from './diff.ts';
import type { Draft } from './draft.ts';
import { countVerdicts, type Question, type ReviewState } from './review-state.ts';
import { STALE } from './settle.ts';

/** A change as the screen shows it. */
export interface Shown {
  readonly change: HeldChange;
  /** Null if the texts cannot be read. */
  readonly draft: Draft | null;
  /** Null if the agent is deleted. */
  readonly agentName: string | null;
}

export interface ScreenOptions extends DiffView {
  /** Height of the terminal. */
  readonly rows: number;
}

/** Number of changes known so far; `isAll` if no further ones follow. */
export interface Known {
  readonly count: number;
  readonly isAll: boolean;
}

/** Lines of the screen that are no diff. */
const LINES_AROUND = 10;

/** Renders a change with all that a decision needs. */
export function renderChange(state: ReviewState, shown: Shown, known: Known, options: ScreenOptions): string {
  const { paint, columns, rows, isWhole } = options;
  const { change, agentName } = shown;
  const title = `── ${state.at + 1} of ${known.count}${known.isAll ? '' : '+'} ── ${plainOf(change.label)} `;
  const diff = diffLines(shown, options);
  const room = Math.max(8, rows - LINES_AROUND);
  const cut = isWhole === true || diff.length <= room ? diff : diff.slice(0, room - 1);
  const lines = [
    '',
    paint('bold', title + '─'.repeat(Math.max(0, columns - widthOf(title)))),
    `agent  ${agentName === null ? '' : `${plainOf(agentName)}  `}${paint('dim', change.agent_id)}`,
    `run    ${change.run_state}${change.stop_reason === null ? '' : `, ${change.stop_reason}`}  ${paint('dim', change.run_id)}${change.custom_id === null ? '' : `  ${plainOf(change.custom_id)}`}`,
    `change ${sizesOf(change).replace(/;.*/, '')}`,
    ...warningsOf(state, change).map((text) => paint('yellow', `!      ${text}`)),
    '',
    ...cut,
    ...(cut.length < diff.length
      ? [paint('dim', `··· ${diff.length - cut.length} more lines: v shows all ···`)]
      : []),
    '',
  ];
  return `${lines.join('\n')}\n`;
}

function diffLines({ change, draft }: Shown, view: DiffView): string[] {
  if (change.kind === 'detached')
    return [view.paint('red', 'The agent detaches the block; its text stays for others.')];
  if (change.kind === 'dropped')
    return [view.paint('dim', 'The agent made this block and dropped it again.')];
  if (draft === null) return renderUnified(change.diff, view.paint);
  if (draft.before === draft.after) return [view.paint('dim', 'The text is unchanged.')];
  return renderWordDiff(draft.before, draft.after, view);
}

function warningsOf({ at, stale }: ReviewState, change: HeldChange): string[] {
  const reason = stale.get(at);
  const { label, label_before, description, description_before } = change;
  return [
    ...(change.shrunk ? ['Shrunk: most of the text is removed. Check what is lost.'] : []),
    ...(change.run_state === 'completed' ? [] : [`The run did not complete: ${change.run_state}.`]),
    ...(change.kind === 'created' ? ['A new block.'] : []),
    ...(label_before !== null && label_before !== label ? [`Renamed: it was ${plainOf(label_before)}.`] : []),
    ...(description !== description_before && change.kind === 'revised'
      ? [`New description: ${plainOf(description ?? 'none')}`]
      : []),
    ...(reason === undefined
      ? []
      : [
          `Still held: ${STALE[reason]}${writerOf(change)}.`,
          ...(reason === 'edited' ? ['m merges both by lines, o overwrites the edit, r rejects.'] : []),
        ]),
  ];
}

/** Names the writer of the block's present revision. */
function writerOf({ stale_because }: HeldChange): string {
  if (stale_because?.reason !== 'edited') return '';
  const { revision, written_by, run_id } = stale_because;
  return `; revision ${revision} is by ${written_by === 'run' ? (run_id ?? 'a run') : 'the API'}`;
}

const ACTIONS = 'a accept · e edit · r reject · s skip · b back · A/R the rest · q quit · ? help';

/** Renders the last line: a notice, or a question, or the keys. */
export function renderPrompt({ question, notice }: ReviewState, paint: Paint): string {
  const told = notice === null ? '' : `${paint('yellow', notice)}\n`;
  return `${told}${paint('bold', question === null ? ACTIONS : askOf(question))} `;
}

function askOf(question: Question): string {
  if (question.kind === 'rest') {
    const { verb, count, passages } = question;
    const beside = passages === 0 ? '' : `, and ${countOfNoun(passages, 'archival passage')}`;
    return `${verb === 'accept' ? 'Accept' : 'Reject'} this and all further changes: ${count}${beside}? [y/N]`;
  }
  return 'Accept the change with your text? [y/N]';
}

/** Text of the key `?`. */
export const HELP = `
  a  accept: the change is in force at once
  e  edit the text in $EDITOR, and accept the change with your text
  r  reject: the block stays as it is
  s  skip: the change stays held
  b  back to the change before
  v  show the whole text, without folds
  m  merge by lines with an edit that the block got since   (stale changes)
  o  overwrite that edit                                     (stale changes)
  A  accept this and all further changes that the flags choose, and their agents' archival passages
  R  reject this and all further changes that the flags choose, and their agents' archival passages
  q  quit: undecided changes stay held
`;

/** Renders the verdicts of a review. */
export function renderVerdicts(state: ReviewState): string {
  const { accepted, edited, rejected, elsewhere } = countVerdicts(state);
  const parts = [
    `${accepted} accepted`,
    ...(edited > 0 ? [`${edited} edited`] : []),
    `${rejected} rejected`,
    ...(elsewhere > 0 ? [`${elsewhere} settled by others`] : []),
  ];
  return parts.join(', ');
}

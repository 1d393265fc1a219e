import { Dialog } from '@base-ui/react/dialog';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useId, useRef, useState, type KeyboardEvent } from 'react';
import { isNamedBySchedule, nameOfBatch, scheduleNamesQuery } from '../api/batch-names.ts';
import { nightshift } from '../api/client.ts';
import { readPage } from '../api/pages-of.ts';
import { pageOfId } from '../pages-of-ids.ts';

interface Choice {
  readonly to: string;
  readonly name: string;
  readonly kind: string;
}

const PAGES: readonly Choice[] = [
  ['/', 'Overview'],
  ['/batches', 'Batches'],
  ['/batches/new', 'New batch'],
  ['/review', 'Review'],
  ['/memories', 'Memories'],
  ['/schedules', 'Schedules'],
  ['/schedules/new', 'New schedule'],
  ['/workers', 'Workers'],
  ['/settings', 'Settings'],
].map(([to = '', name = '']) => ({ to, name, kind: 'page' }));

/** Choices shown at most. */
const SHOWN_MAX = 12;

/** Goes to a page, a recent batch, or the page of an id that is pasted. */
export function Palette({ onClose }: { readonly onClose: () => void }) {
  // The page that is gone to takes the focus.
  const hasGone = useRef(false);
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="popup dialog palette" finalFocus={() => !hasGone.current}>
          <Dialog.Title className="unseen">Go to</Dialog.Title>
          <Chooser
            onGo={() => {
              hasGone.current = true;
              onClose();
            }}
          />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Chooser({ onGo }: { readonly onGo: () => void }) {
  const navigate = useNavigate();
  const list = useId();
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const choices = useChoices(text);
  const go = (choice: Choice | undefined): void => {
    if (choice === undefined) return;
    onGo();
    void navigate({ to: choice.to });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Enter') go(choices[at]);
    if (step === undefined || choices.length === 0) return;
    event.preventDefault();
    setAt((at + step + choices.length) % choices.length);
  };
  return (
    <>
      <input
        className="input"
        role="combobox"
        aria-label="Page, batch, or id"
        aria-expanded={choices.length > 0}
        aria-controls={list}
        aria-activedescendant={choices.length > 0 ? `${list}-${at}` : undefined}
        placeholder="Page, batch, or the id of anything"
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id={list} role="listbox" aria-label="Places">
        {choices.map((choice, place) => (
          <li
            key={choice.to}
            id={`${list}-${place}`}
            role="option"
            aria-selected={place === at}
            onMouseMove={() => setAt(place)}
            onClick={() => go(choice)}
          >
            <span className="cut">{choice.name}</span> <span className="muted small">{choice.kind}</span>
          </li>
        ))}
      </ul>
      {choices.length === 0 && <p className="muted">Nothing has this name or id.</p>}
    </>
  );
}

function useChoices(text: string): readonly Choice[] {
  const recent = useQuery({
    queryKey: ['batches', 'recent'],
    queryFn: () => readPage(nightshift.batches.list({ limit: 20 })),
    staleTime: 10_000,
  });
  const schedules = useQuery({
    ...scheduleNamesQuery,
    enabled: recent.data?.some(isNamedBySchedule) === true,
  });
  const address = pageOfId(text);
  if (address !== null) return [{ to: address, name: text.trim(), kind: 'id' }];
  const batches = (recent.data ?? []).map((batch): Choice => ({
    to: `/batches/${batch.id}`,
    name: nameOfBatch(batch, schedules.data),
    kind: 'batch',
  }));
  const wanted = text.trim().toLowerCase();
  return [...PAGES, ...batches].filter(({ name }) => name.toLowerCase().includes(wanted)).slice(0, SHOWN_MAX);
}

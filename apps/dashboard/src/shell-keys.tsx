import { lazy, Suspense, useState } from 'react';
import { useKeys } from './parts/keys.ts';

const Help = lazy(() => import('./parts/help.tsx').then((part) => ({ default: part.Help })));
const Palette = lazy(() => import('./parts/palette.tsx').then((part) => ({ default: part.Palette })));

/** Keys of every page: the help, the palette, the page's search. */
export function ShellKeys() {
  const [open, setOpen] = useState<'help' | 'palette' | null>(null);
  useKeys({
    '?': { what: 'Show the keys', act: () => setOpen('help') },
    'Ctrl-K': { what: 'Go to a page, a batch or an id', act: () => setOpen('palette') },
    '/': { what: 'Search on this page', act: focusSearch },
  });
  const close = (): void => setOpen(null);
  return (
    <>
      <p className="rail-keys">
        <button type="button" className="button" onClick={() => setOpen('palette')}>
          Go to <kbd>Ctrl-K</kbd>
        </button>
        <button type="button" className="button" aria-label="Show the keys" onClick={() => setOpen('help')}>
          <kbd>?</kbd>
        </button>
      </p>
      <Suspense>
        {open === 'help' && <Help onClose={close} />}
        {open === 'palette' && <Palette onClose={close} />}
      </Suspense>
    </>
  );
}

function focusSearch(): void {
  document
    .querySelector<HTMLInputElement>('#content [role="search"] input, #content input[type="search"]')
    ?.focus();
}

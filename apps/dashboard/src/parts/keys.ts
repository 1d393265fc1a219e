import { useEffect, useRef, type RefObject } from 'react';

/** What a key does, for the help and when it is pressed. */
export interface Key {
  readonly what: string;
  readonly act: () => void;
}

/** Keys by name: `j`, `?`, `Ctrl-K`. */
export type Keys = Readonly<Record<string, Key>>;

/** Keys of the parts on the page, the latest last. */
const layers: RefObject<Keys>[] = [];

/** Binds keys while a part is on the page. A later part wins. Not bound while text is typed or a dialog is open. */
export function useKeys(keys: Keys): void {
  const layer = useRef(keys);
  useEffect(() => {
    layer.current = keys;
  });
  useEffect(() => {
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
    };
  }, []);
}

/** Returns the keys that are bound now, each with what it does. */
export function listKeys(): readonly (readonly [name: string, what: string])[] {
  const bound = new Map(layers.flatMap(({ current }) => Object.entries(current)));
  return [...bound].map(([name, { what }]) => [name, what]);
}

function nameOf({ key, ctrlKey, metaKey, altKey }: KeyboardEvent): string | null {
  if (altKey) return null;
  return ctrlKey || metaKey ? `Ctrl-${key.toUpperCase()}` : key;
}

const TYPED_INTO = 'input, textarea, select, [contenteditable]';

window.addEventListener('keydown', (event) => {
  const name = nameOf(event);
  if (name === null || event.defaultPrevented || event.isComposing) return;
  const isTyped = event.target instanceof Element && event.target.closest(TYPED_INTO) !== null;
  if (isTyped && !name.startsWith('Ctrl-')) return;
  if (document.querySelector('[role="dialog"], [role="alertdialog"]') !== null) return;
  const key = layers.findLast(({ current }) => name in current)?.current[name];
  if (key === undefined) return;
  event.preventDefault();
  key.act();
});

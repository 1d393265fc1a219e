import { useLocation } from '@tanstack/react-router';
import { useEffect, useRef, type ReactNode } from 'react';

interface PageProps {
  readonly title: string;
  /** Beside the title: a state or an id. */
  readonly aside?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

/** Address of the page that took the focus last. The first page leaves it to the browser. */
let focusedPath = window.location.pathname;
let isFirst = true;

/** Lays out a page: its title with state and actions, then its content. */
export function Page({ title, aside, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Nightshift`;
  }, [title]);
  const main = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  useEffect(() => {
    const isNew = pathname !== focusedPath;
    // A page replaces its "Loading", which had the focus.
    const isLost = !isFirst && document.activeElement === document.body;
    if (!isNew && !isLost) return;
    [focusedPath, isFirst] = [pathname, false];
    main.current?.focus({ preventScroll: true });
  }, [pathname]);
  return (
    <main className="page" id="content" tabIndex={-1} ref={main}>
      <header className="page-head">
        <h1>{title}</h1>
        {aside}
        {actions !== undefined && <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </main>
  );
}

/** A part of a page with a heading. */
export function Section({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <section className="section">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

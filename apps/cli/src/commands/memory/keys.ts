/** Keys of a terminal, one at a time. */
export interface Keys {
  /**
   * Waits for a key. Those pressed before are dropped: they were no answer to what is shown now. Ctrl-C is a key too; while
   * nothing waits for one it interrupts the work. An interruption by a signal answers as Ctrl-C.
   */
  next(): Promise<string>;
  /** Gives the terminal to another program, and takes it back afterwards. */
  lend<T>(work: () => Promise<T>): Promise<T>;
  close(): void;
}

const INTERRUPT = '\u0003';
const END_OF_INPUT = '\u0004';

/** Reads the keys of a terminal as they are pressed. */
export function openKeys(terminal: NodeJS.ReadStream, signal: AbortSignal): Keys {
  let answer: ((key: string) => void) | undefined;
  /** Answers every later wait too: the terminal has ended, or the work is interrupted. */
  let last: string | undefined;
  const read = (text: string): void => {
    // Several keys may come at once; an arrow is several characters, and means nothing here.
    const key = text.includes(INTERRUPT) ? INTERRUPT : (text[0] ?? '');
    if (answer !== undefined) answer(key);
    else if (key === INTERRUPT) process.emit('SIGINT');
  };
  const finish = (key: string): void => {
    last ??= key;
    answer?.(key);
  };
  const end = (): void => finish(END_OF_INPUT);
  const interrupt = (): void => finish(INTERRUPT);
  const take = (): void => {
    terminal.setRawMode(true);
    terminal.resume();
  };
  const give = (): void => {
    terminal.setRawMode(false);
    terminal.pause();
  };
  terminal.setEncoding('utf8');
  terminal.on('data', read);
  terminal.on('end', end);
  signal.addEventListener('abort', interrupt);
  take();
  return {
    next: async () => {
      if (last !== undefined) return last;
      const key = await new Promise<string>((resolve) => {
        answer = resolve;
      });
      answer = undefined;
      return key;
    },
    lend: async (work) => {
      give();
      try {
        return await work();
      } finally {
        take();
      }
    },
    close: () => {
      terminal.off('data', read);
      terminal.off('end', end);
      signal.removeEventListener('abort', interrupt);
      give();
    },
  };
}

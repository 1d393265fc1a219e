import { createContext, Script } from 'node:vm';

const context = createContext({ act: () => undefined });
const call = new Script('act()');

/**
 * Does something that waits for nothing, for so many milliseconds at most: whatever it is at, it is ended then. Says whether
 * it came to its end. A call costs some tenths of a millisecond: Node starts a thread that looks at the clock.
 */
export function actWithin(timeout: number, act: () => void): boolean {
  context['act'] = act;
  try {
    call.runInContext(context, { timeout });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return false;
    throw error;
  } finally {
    // What it holds is not to outlive it.
    delete context['act'];
  }
}

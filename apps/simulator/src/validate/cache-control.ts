import type { MessageParams } from '../scripts/script.ts';
import { invalid, isObject } from './issue.ts';
import type { Issue } from './issue.ts';

const MAX_BREAKPOINTS = 4;

/** Validates cache marks: their form, at most four, and one-hour marks before five-minute ones. */
export function cacheControlIssue(params: MessageParams): Issue | undefined {
  const ttls: string[] = [];
  const visit = (owner: unknown, path: string): Issue | undefined => {
    const control = isObject(owner) ? owner['cache_control'] : undefined;
    if (control === undefined || control === null) return undefined;
    if (!isObject(control) || control['type'] !== 'ephemeral') {
      return invalid(`${path}.cache_control.type: Input should be 'ephemeral'`);
    }
    const ttl = control['ttl'] ?? '5m';
    if (ttl !== '5m' && ttl !== '1h')
      return invalid(`${path}.cache_control.ttl: Input should be '5m' or '1h'`);
    if (ttl === '1h' && ttls.includes('5m')) {
      return invalid(
        `${path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' block`,
      );
    }
    ttls.push(ttl);
    return undefined;
  };
  for (const [at, tool] of (params.tools ?? []).entries()) {
    const issue = visit(tool, `tools.${at}`);
    if (issue !== undefined) return issue;
  }
  if (Array.isArray(params.system)) {
    for (const [at, block] of params.system.entries()) {
      const issue = visit(block, `system.${at}`);
      if (issue !== undefined) return issue;
    }
  }
  for (const [at, message] of params.messages.entries()) {
    if (typeof message.content === 'string') continue;
    for (const [index, block] of message.content.entries()) {
      const issue = visit(block, `messages.${at}.content.${index}`);
      if (issue !== undefined) return issue;
    }
  }
  const automatic = visit(params, 'params');
  if (automatic !== undefined) return automatic;
  if (ttls.length <= MAX_BREAKPOINTS) return undefined;
  return invalid(
    `A maximum of ${MAX_BREAKPOINTS} blocks with cache_control may be provided. Found ${ttls.length}.`,
  );
}

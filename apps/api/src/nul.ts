import { NightshiftError } from '@nightshift/agent-core';
import type { preHandlerHookHandler } from 'fastify';

/** Refuses NUL in the path or query, which the database cannot store. The error names the parameter. */
export const refuseNul: preHandlerHookHandler = (request, _reply, done) => {
  if (request.is404) {
    done();
    return;
  }
  const parts = [
    ...Object.entries(request.params as Record<string, unknown>),
    ...Object.entries(request.query as Record<string, unknown>).map(([name, value]) => [`?${name}`, value]),
  ] as const;
  const [path] = parts.find(([, value]) => [value].flat().some(hasNul)) ?? [];
  if (typeof path !== 'string') {
    done();
    return;
  }
  const message = 'must not hold a NUL character';
  done(new NightshiftError('validation_failed', `${path} ${message}.`, { fields: [{ path, message }] }));
};

function hasNul(value: unknown): boolean {
  return typeof value === 'string' && value.includes('\0');
}

import { NightshiftError } from '@nightshift/agent-core';
import { isStatementTimeout } from '@nightshift/db';
import { STATEMENT_MS } from '@nightshift/services';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { App } from '../context.ts';
import { PROBLEM_TYPE, toAnswer, toProblem, type ErrorAnswer } from './problem.ts';
import { answerOf } from './answer-of.ts';

/** The client has disconnected. */
const CLIENT_GONE = toAnswer(
  new NightshiftError('invalid_argument', 'The client disconnected before its body was complete.'),
);

const TOO_SLOW = toAnswer(
  new NightshiftError(
    'too_slow',
    `The database needs longer than ${STATEMENT_MS / 1_000} s for this request.`,
  ),
);

/** Answers an error, and logs the internal details. Also for errors of the router, before any hook. */
export function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  // An unread body, such as an empty body, counts as aborted although it was complete.
  const isGone = request.raw.readableAborted && !request.raw.complete;
  // A slow read or write of a single row waited for a lock and can be retried; a slow list reads too many rows.
  const isSlow = isStatementTimeout(error) && isList(request);
  const answer = isGone
    ? CLIENT_GONE
    : isSlow
      ? TOO_SLOW
      : answerOf(error, () => request.routeOptions.bodyLimit);
  if (isGone) request.log.info({ err: error }, 'client_gone');
  else if (answer.status >= 500) request.log.error({ err: error }, answer.code);
  send(request, reply, answer);
}

/** Tells whether the request is for a list, whose filters can be narrowed. */
function isList({ method, routeOptions: { url = '', schema } }: FastifyRequest): boolean {
  if (!['GET', 'HEAD'].includes(method) || schema?.querystring === undefined) return false;
  return !url.slice(url.lastIndexOf('/') + 1).startsWith(':');
}

/** Gives every error the same body; see `problem.ts`. A request without a route is answered without its body or key. */
export function answerErrors(app: App): void {
  app.setErrorHandler(answerError);
  const { methodsOf, isNamed } = rememberRoutes(app);
  const answerNotFound = (request: FastifyRequest, reply: FastifyReply): void => {
    const methods = methodsOf(request.url);
    if (methods.length > 0) void reply.header('allow', methods.join(', '));
    const error =
      methods.length > 0
        ? new NightshiftError('method_not_allowed', `${pathOf(request.url)} takes ${methods.join(', ')}.`)
        : new NightshiftError('unknown_path', `There is no ${request.method} ${pathOf(request.url)}.`);
    send(request, reply, toAnswer(error));
  };
  app.setNotFoundHandler(answerNotFound);
  app.addHook('preParsing', (request, reply, payload, done) => {
    // A named path also matches an id's route; it is no id if the path lacks the method.
    const isMistaken = request.routeOptions.url?.includes(':') === true && isNamed(request.url);
    if (request.is404 || isMistaken) answerNotFound(request, reply);
    else done(null, payload);
  });
}

function send(request: FastifyRequest, reply: FastifyReply, answer: ErrorAnswer): void {
  if (answer.retryAfterSeconds !== null) void reply.header('retry-after', answer.retryAfterSeconds);
  if (answer.status === 401) void reply.header('www-authenticate', 'Bearer');
  // Stainless clients retry these statuses unless told not to.
  if ([409, 501, 504].includes(answer.status)) void reply.header('x-should-retry', 'false');
  // A compressed stream that failed before its first byte has set it.
  reply.raw.removeHeader('content-encoding');
  void reply
    .removeHeader('content-encoding')
    .code(answer.status)
    .header('x-request-id', request.id)
    .type(PROBLEM_TYPE)
    .serializer((payload) => JSON.stringify(payload))
    .send(toProblem(answer, request.id));
}

function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? url;
}

interface Routes {
  /** Returns the methods of a URL. A named path has only its own methods. */
  readonly methodsOf: (url: string) => readonly string[];
  /** Tells whether the path of a URL is a literal route. */
  readonly isNamed: (url: string) => boolean;
}

/** Records every route from now on. */
function rememberRoutes(app: App): Routes {
  const routes: { readonly pattern: RegExp; readonly method: string }[] = [];
  const named = new Map<string, string[]>();
  app.addHook('onRoute', (route) => {
    const parts = route.url
      .split('/')
      .map((part) => (part.startsWith(':') ? '[^/]+' : part.replaceAll('.', '\\.')));
    const path = unslashed(route.url);
    for (const method of [route.method].flat()) {
      routes.push({ pattern: new RegExp(`^${parts.join('/')}/?$`), method });
      if (!path.includes(':')) named.set(path, [...(named.get(path) ?? []), method]);
    }
  });
  return {
    methodsOf: (url) => {
      const path = pathOf(url);
      const methods =
        named.get(unslashed(path)) ??
        routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
      return [...new Set(methods)].sort();
    },
    isNamed: (url) => named.has(unslashed(pathOf(url))),
  };
}

function unslashed(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path;
}

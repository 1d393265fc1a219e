import { NightshiftError } from '@nightshift/agent-core';
import { isStatementTimeout } from '@nightshift/db';
import { STATEMENT_MS } from '@nightshift/services';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { App } from '../context.ts';
import { toAnswer, toProblem, type ErrorAnswer } from './problem.ts';
import { answerOf } from './answer-of.ts';

/** Nobody is there to read it. */
const GONE = toAnswer(
  new NightshiftError('invalid_argument', 'The client has gone before its body was whole.'),
);

const TOO_SLOW = toAnswer(
  new NightshiftError('too_slow', `What was asked takes the database longer than ${STATEMENT_MS / 1_000} s.`),
);

/** Answers one error; the log keeps what the answer must not say. Also for errors of the router, before any hook has run. */
export function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  // A body that nobody reads, such as none, counts as aborted though it was whole.
  const isGone = request.raw.readableAborted && !request.raw.complete;
  // Who reads or writes one thing has waited for others, and comes again; a list has found too much to look at.
  const isSlow = isStatementTimeout(error) && isList(request);
  const answer = isGone ? GONE : isSlow ? TOO_SLOW : answerOf(error, () => request.routeOptions.bodyLimit);
  if (isGone) request.log.info({ err: error }, 'client_gone');
  else if (answer.status >= 500) request.log.error({ err: error }, answer.code);
  send(request, reply, answer);
}

/** Whether what is asked for are many, which can be narrowed. */
function isList({ method, routeOptions: { url = '', schema } }: FastifyRequest): boolean {
  if (!['GET', 'HEAD'].includes(method) || schema?.querystring === undefined) return false;
  return !url.slice(url.lastIndexOf('/') + 1).startsWith(':');
}

/** Makes every error one body; see `problem.ts`. What has no route is answered at once, its body unread: nobody asked its key. */
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
    // The name of a path is no id, though the router takes it for one where the path has not this method.
    const isMistaken = request.routeOptions.url?.includes(':') === true && isNamed(request.url);
    if (request.is404 || isMistaken) answerNotFound(request, reply);
    else done(null, payload);
  });
}

function send(request: FastifyRequest, reply: FastifyReply, answer: ErrorAnswer): void {
  if (answer.retryAfterSeconds !== null) void reply.header('retry-after', answer.retryAfterSeconds);
  if (answer.status === 401) void reply.header('www-authenticate', 'Bearer');
  // Clients made by Stainless try these again unless they are told that it lasts.
  if (answer.status === 409 || answer.status === 504) void reply.header('x-should-retry', 'false');
  void reply
    .code(answer.status)
    .header('x-request-id', request.id)
    .type('application/json; charset=utf-8')
    .serializer((payload) => JSON.stringify(payload))
    .send(toProblem(answer, request.id));
}

function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? url;
}

interface Routes {
  /** The methods that a URL has; where its path has a name of its own, those of that. */
  readonly methodsOf: (url: string) => readonly string[];
  /** Whether the path of a URL is a route to the letter. */
  readonly isNamed: (url: string) => boolean;
}

/** Learns every route from now on. */
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

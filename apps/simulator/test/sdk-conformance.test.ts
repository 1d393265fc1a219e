import Anthropic from '@anthropic-ai/sdk';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { all, messageOf, plainHeaders, request, requests, roundTrip, running } from './support/running.ts';

const MEMBERS = [
  'archived_at',
  'cancel_initiated_at',
  'created_at',
  'ended_at',
  'expires_at',
  'id',
  'processing_status',
  'request_counts',
  'results_url',
  'type',
];

describe('through the official client', () => {
  test('a batch is created, polled to its end and read', async () => {
    const { simulator, client } = await running();
    const created = await client.messages.batches.create({ requests: requests(3) });
    expect(Object.keys(created).sort()).toEqual(MEMBERS);
    expect(created).toMatchObject({
      type: 'message_batch',
      processing_status: 'in_progress',
      request_counts: { processing: 3, succeeded: 0, errored: 0, canceled: 0, expired: 0 },
      ended_at: null,
      results_url: null,
    });
    expect(created.id).toMatch(/^msgbatch_01[1-9A-HJ-NP-Za-km-z]{22}$/);
    expect(created._request_id).toMatch(/^req_011C.{20}$/);
    expect(Date.parse(created.expires_at) - Date.parse(created.created_at)).toBe(86_400_000);

    await simulator.control.advance(999);
    expect((await client.messages.batches.retrieve(created.id)).processing_status).toBe('in_progress');
    await simulator.control.advance(1);
    const ended = await client.messages.batches.retrieve(created.id);
    expect(ended).toMatchObject({
      processing_status: 'ended',
      request_counts: { processing: 0, succeeded: 3 },
      results_url: `${simulator.apiUrl}/v1/messages/batches/${created.id}/results`,
    });

    const lines = await all(await client.messages.batches.results(created.id));
    expect(lines.map(({ custom_id }) => custom_id).sort()).toEqual(['r-0', 'r-1', 'r-2']);
    const message = messageOf(lines[0]);
    expect(message).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'claude-opus-5',
      stop_reason: 'end_turn',
    });
    expect(message.usage).toMatchObject({ service_tier: 'batch', cache_read_input_tokens: 0 });
    expect(message.usage.input_tokens).toBeGreaterThan(10);
  });

  test('the list pages newest first, in both directions', async () => {
    const { client } = await running();
    const ids: string[] = [];
    for (let i = 0; i < 8; i++)
      ids.push((await client.messages.batches.create({ requests: requests(1) })).id);
    const newestFirst = ids.toReversed();

    const listed = await all(client.messages.batches.list({ limit: 3 }));
    expect(listed.map(({ id }) => id)).toEqual(newestFirst);
    const page = await client.messages.batches.list({ limit: 3 });
    expect(page).toMatchObject({ has_more: true, first_id: newestFirst[0], last_id: newestFirst[2] });

    const newer = await client.messages.batches.list({ limit: 3, before_id: newestFirst[5] as string });
    expect(newer.data.map(({ id }) => id)).toEqual(newestFirst.slice(2, 5));
    expect(newer.has_more).toBe(true);
    const older = await client.messages.batches.list({ limit: 3, after_id: newestFirst[5] as string });
    expect(older.data.map(({ id }) => id)).toEqual(newestFirst.slice(6));
    expect(older.has_more).toBe(false);
    await expect(client.messages.batches.list({ limit: 1001 })).rejects.toBeInstanceOf(
      Anthropic.BadRequestError,
    );
    expect(await client.messages.batches.list({ after_id: ids[0] as string })).toMatchObject({
      data: [],
      first_id: null,
    });
  });

  test('the beta resource reaches the same batches', async () => {
    const { client } = await running();
    const { id } = await client.beta.messages.batches.create({ requests: [request('a')] as never });
    expect((await client.messages.batches.retrieve(id)).id).toBe(id);
  });

  test('a canceled batch ends with a line for every request', async () => {
    const { simulator, client } = await running({ settings: { latency: 'fixed:10000' } });
    const { id } = await client.messages.batches.create({ requests: requests(50) });
    await simulator.control.advance(3000);
    const canceling = await client.messages.batches.cancel(id);
    expect(canceling).toMatchObject({
      processing_status: 'canceling',
      request_counts: { processing: 50 },
      results_url: null,
    });
    expect(canceling.cancel_initiated_at).not.toBeNull();
    await simulator.control.advance(1000);
    const ended = await client.messages.batches.retrieve(id);
    expect(ended.processing_status).toBe('ended');
    expect(ended.request_counts.succeeded).toBeGreaterThan(5);
    expect(ended.request_counts.canceled).toBeGreaterThan(20);
    expect(ended.request_counts.succeeded + ended.request_counts.canceled).toBe(50);
    const lines = await all(await client.messages.batches.results(id));
    expect(lines.filter(({ result }) => result.type === 'canceled')).toHaveLength(
      ended.request_counts.canceled,
    );
    expect(simulator.control.ledger().totals.requests).toBe(ended.request_counts.succeeded);
    await expect(client.messages.batches.cancel(id)).rejects.toBeInstanceOf(Anthropic.BadRequestError);
  });

  test('a deleted batch is gone; one in progress cannot be deleted', async () => {
    const { simulator, client } = await running();
    const { id } = await client.messages.batches.create({ requests: requests(1) });
    await expect(client.messages.batches.delete(id)).rejects.toBeInstanceOf(Anthropic.BadRequestError);
    await simulator.control.advance(1000);
    expect(await client.messages.batches.delete(id)).toEqual({ id, type: 'message_batch_deleted' });
    await expect(client.messages.batches.retrieve(id)).rejects.toBeInstanceOf(Anthropic.NotFoundError);
    expect((await client.messages.batches.list()).data).toEqual([]);
  });

  test('results before the end are refused by the client, and by the server with 404', async () => {
    const { simulator, client } = await running();
    const { id } = await client.messages.batches.create({ requests: requests(1) });
    await expect(client.messages.batches.results(id)).rejects.toThrow(/No batch `?results_url/);
    const response = await fetch(`${simulator.apiUrl}/v1/messages/batches/${id}/results`, {
      headers: plainHeaders,
    });
    expect(response.status).toBe(404);
  });

  test('a message is answered at once, and tokens are counted', async () => {
    const { client } = await running();
    const params = {
      model: 'claude-opus-5',
      messages: [{ role: 'user' as const, content: 'What is a batch?' }],
    };
    const message = await client.messages.create({ ...params, max_tokens: 100 });
    expect(message.content).toMatchObject([{ type: 'text' }]);
    expect(message.usage.service_tier).toBe('standard');
    const { input_tokens } = await client.messages.countTokens(params);
    expect(input_tokens).toBe(Math.ceil(JSON.stringify(params).length / 4));
  });

  test('an error in the server is answered with 500', async () => {
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    onTestFinished(() => said.mockRestore());
    const { simulator, client } = await running();
    const content = '⟦sim:hugeText?bytes=10000000000⟧';
    const params = {
      model: 'claude-opus-5',
      max_tokens: 100,
      messages: [{ role: 'user' as const, content }],
    };
    await expect(client.messages.create(params, { timeout: 2000 })).rejects.toMatchObject({
      status: 500,
      type: 'api_error',
    });
    expect(simulator.control.journal().entries).toMatchObject([{ outcome: 'answered', status: 500 }]);
    expect(said).toHaveBeenCalledOnce();
  });

  test('models are listed and described', async () => {
    const { client } = await running();
    const models = await all(client.models.list({ limit: 5 }));
    expect(models.length).toBeGreaterThan(15);
    expect(new Set(models.map(({ id }) => id)).size).toBe(models.length);
    const model = await client.models.retrieve('claude-haiku-4-5-20251001');
    expect(model).toMatchObject({ type: 'model', id: 'claude-haiku-4-5-20251001', lifecycle: 'active' });
    await expect(client.models.retrieve('gpt-2')).rejects.toBeInstanceOf(Anthropic.NotFoundError);
  });

  test.each([
    [400, 'invalid_request_error', Anthropic.BadRequestError],
    [401, 'authentication_error', Anthropic.AuthenticationError],
    [402, 'billing_error', Anthropic.PaymentRequiredError],
    [403, 'permission_error', Anthropic.PermissionDeniedError],
    [404, 'not_found_error', Anthropic.NotFoundError],
    [409, 'conflict_error', Anthropic.ConflictError],
    [413, 'request_too_large', Anthropic.ContentTooLargeError],
    [422, 'api_error', Anthropic.UnprocessableEntityError],
    [429, 'rate_limit_error', Anthropic.RateLimitError],
    [500, 'api_error', Anthropic.InternalServerError],
    [504, 'timeout_error', Anthropic.GatewayTimeoutError],
    [529, 'overloaded_error', Anthropic.OverloadedError],
  ] as const)('status %i arrives as its error class', async (code, type, errorClass) => {
    const { simulator, client } = await running();
    simulator.control.addRule({
      op: 'create',
      action: { type: 'status', code, headers: { 'retry-after': '1' } },
    });
    const error = await client.messages.batches
      .create({ requests: requests(1) })
      .catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(errorClass);
    expect(error).toMatchObject({ status: code, type });
    expect(simulator.control.batches()).toEqual([]);
  });

  test('a reply has the headers of the provider', async () => {
    const { simulator } = await running();
    const response = await fetch(`${simulator.apiUrl}/v1/messages/batches`, { headers: plainHeaders });
    expect(response.headers.get('request-id')).toMatch(/^req_011C/);
    expect(response.headers.get('anthropic-organization-id')).toBeTruthy();
    expect(response.headers.get('anthropic-workspace-id')).toMatch(/^wrkspc_01/);
    expect(response.headers.get('content-type')).toBe('application/json');
  });

  test('workspaces do not see each other', async () => {
    const { simulator, client } = await running({ settings: { workspaces: { 'other-key': 'other' } } });
    const { id } = await client.messages.batches.create({ requests: requests(1) });
    const other = new Anthropic({ apiKey: 'other-key', baseURL: simulator.apiUrl, maxRetries: 0 });
    await expect(other.messages.batches.retrieve(id)).rejects.toBeInstanceOf(Anthropic.NotFoundError);
    expect((await other.messages.batches.list()).data).toEqual([]);
  });

  test('compressed results read like plain ones', async () => {
    const started = await running({ settings: { results_gzip: true } });
    const lines = await roundTrip(started, requests(300));
    expect(new Set(lines.map(({ custom_id }) => custom_id)).size).toBe(300);
  });
});

describe('an invalid request', () => {
  test.each([
    ['no key', { 'anthropic-version': '2026-10-21' }, 401],
    ['no version', { 'x-api-key': 'k' }, 400],
    ['an unknown version', { 'x-api-key': 'k', 'anthropic-version': '2020-01-01' }, 400],
    [
      'a bearer token is as good as a key',
      { authorization: 'Bearer k', 'anthropic-version': '2023-06-01' },
      200,
    ],
  ])('%s', async (_name, headers, status) => {
    const { simulator } = await running();
    const response = await fetch(`${simulator.apiUrl}/v1/messages/batches`, {
      headers: headers as Record<string, string>,
    });
    expect(response.status).toBe(status);
    const body = (await response.json()) as { type?: string; request_id?: string };
    if (status !== 200)
      expect(body).toMatchObject({ type: 'error', request_id: response.headers.get('request-id') });
  });

  test('only the configured key is accepted', async () => {
    const { client } = await running({ apiKey: 'the-key' });
    await expect(client.messages.batches.list()).rejects.toBeInstanceOf(Anthropic.AuthenticationError);
    expect((await client.withOptions({ apiKey: 'the-key' }).messages.batches.list()).data).toEqual([]);
  });

  const long = 'x'.repeat(65);
  test.each([
    ['not JSON', '{"requests":[', /not valid JSON/],
    ['no object', '[]', /valid dictionary/],
    ['no list', '{}', /requests: Field required/],
    ['a list of another type', '{"requests":{}}', /requests: Input should be a valid list/],
    ['an empty list', '{"requests":[]}', /at least 1 item/],
    ['an item that is no object', '{"requests":[1]}', /requests\.0: /],
    ['no custom id', '{"requests":[{"params":{}}]}', /requests\.0\.custom_id: Field required/],
    [
      'a custom id of another type',
      '{"requests":[{"custom_id":1,"params":{}}]}',
      /requests\.0\.custom_id: .*string/,
    ],
    ['an empty custom id', '{"requests":[{"custom_id":"","params":{}}]}', /requests\.0\.custom_id: /],
    ['a custom id too long', `{"requests":[{"custom_id":"${long}","params":{}}]}`, /at most 64 characters/],
    ['a colon in a custom id', '{"requests":[{"custom_id":"a:b","params":{}}]}', /pattern/],
    [
      'a custom id twice',
      '{"requests":[{"custom_id":"a","params":{}},{"custom_id":"a","params":{}}]}',
      /requests\.1\.custom_id/,
    ],
    ['no params', '{"requests":[{"custom_id":"a"}]}', /requests\.0\.params: Field required/],
    [
      'another member in an item',
      '{"requests":[{"custom_id":"a","params":{},"x":1}]}',
      /requests\.0\.x: Extra/,
    ],
    [
      'another member in the body',
      '{"requests":[{"custom_id":"a","params":{}}],"metadata":{}}',
      /metadata: Extra/,
    ],
  ])('%s fails the whole create', async (_name, body, message) => {
    const { simulator } = await running();
    const response = await fetch(`${simulator.apiUrl}/v1/messages/batches`, {
      method: 'POST',
      headers: plainHeaders,
      body,
    });
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { type: string; message: string } };
    expect(error.type).toBe('invalid_request_error');
    expect(error.message).toMatch(message);
    expect(simulator.control.batches()).toEqual([]);
  });

  test('too many requests, or too many bytes, fail the whole create', async () => {
    const { client } = await running({ settings: { max_requests: 10, max_body_bytes: 5000 } });
    await expect(client.messages.batches.create({ requests: requests(11) })).rejects.toThrow(
      /at most 10 items/,
    );
    const large = client.messages.batches.create({ requests: [request('a', 'x'.repeat(6000))] });
    await expect(large).rejects.toBeInstanceOf(Anthropic.ContentTooLargeError);
    const error = await client.messages.batches
      .create({ requests: [request('a', 'x'.repeat(6000))] })
      .catch((caught: unknown) => caught as InstanceType<typeof Anthropic.APIError>);
    expect((error as { error: unknown }).error).toEqual({
      error: { type: 'request_too_large', message: 'Request exceeds the maximum size' },
    });
  });

  test('an unknown route is a 404 in the provider’s envelope', async () => {
    const { simulator } = await running();
    const response = await fetch(`${simulator.apiUrl}/v2/nothing`, { headers: plainHeaders });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ type: 'error', error: { type: 'not_found_error' } });
  });
});

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openApi, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

test("the caller's answer to a call may have only known fields and Letta's", async () => {
  const path = `/v1/runs/run-${UNKNOWN_UUID}/tool-results`;
  const result = {
    type: 'tool',
    tool_call_id: 'a',
    tool_return: 'x',
    status: 'success',
    stdout: [],
    stderr: null,
  };
  const denial = { type: 'approval', tool_call_id: 'b', approve: false };
  const misspelt = await api.call('POST', path, { approvals: [result, { ...denial, resaon: 'No.' }] });
  expect([misspelt.status, misspelt.body.errors]).toEqual([
    422,
    [{ path: '/approvals/1/resaon', message: 'is not known here' }],
  ]);
  expect((await api.call('POST', path, { approvals: [result, denial] })).status).toBe(404);
});

describe("an answer to a call in the form of Letta's client", () => {
  const path = `/v1/runs/run-${UNKNOWN_UUID}/tool-results`;
  const approval = { type: 'approval', tool_call_id: 'a', approve: true, reason: null };
  const result = { type: 'tool', tool_call_id: 'b', tool_return: 'x', status: 'success' };
  const untyped = ({ type: _type, ...rest }: typeof approval | typeof result) => rest;

  // The run is unknown, so a 404 means that the body was understood.
  test.each<[string, object]>([
    ['an ApprovalCreate', { type: 'approval', approvals: [approval, result], group_id: null }],
    [
      'an ApprovalCreate with null in its older fields',
      { type: 'approval', approvals: [approval], approval_request_id: null, approve: null, reason: null },
    ],
    ['elements without a type', { approvals: [untyped(approval), untyped(result)] }],
  ])('is accepted as %s', async (_name, body) => {
    expect((await api.call('POST', path, body)).status).toBe(404);
  });

  const toSend =
    'names no call: send approvals, with {type, tool_call_id, approve, reason} for each call in waits_for of the run';
  const noType =
    'must be approval or tool; it may be absent beside approve, or beside tool_return and status';
  test.each<[string, object, readonly object[]]>([
    [
      'of an old client, without a call',
      {
        type: 'approval',
        approvals: [approval],
        approval_request_id: 'message-1',
        approve: false,
        reason: 'No.',
      },
      ['approval_request_id', 'approve', 'reason'].map((field) => ({ path: `/${field}`, message: toSend })),
    ],
    [
      'of another type',
      { type: 'message', approvals: [approval] },
      [{ path: '/type', message: 'must be approval' }],
    ],
    [
      "with both types' fields",
      { approvals: [{ ...untyped(approval), ...untyped(result) }] },
      [{ path: '/approvals/0/type', message: noType }],
    ],
    [
      "with neither type's fields",
      { approvals: [{ tool_call_id: 'a' }] },
      [{ path: '/approvals/0/type', message: noType }],
    ],
    [
      'without a type and with an unknown field',
      { approvals: [{ ...untyped(approval), resaon: 'No.' }] },
      [{ path: '/approvals/0/resaon', message: 'is not known here' }],
    ],
  ])('is refused %s', async (_name, body, errors) => {
    const answer = await api.call('POST', path, body);
    expect([answer.status, answer.body.errors]).toEqual([422, errors]);
  });
});

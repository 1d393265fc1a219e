import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openApi, UNKNOWN_UUID, type TestApi } from './api.ts';
import { createReview, type ChangeToHold, type Review } from './reviews.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const LONG = 'fact\n'.repeat(60);

/** Changes of every kind: plain, failed, shrunk, of another label, detached, and equal to each other. */
const MIXED: readonly ChangeToHold[] = [
  { before: 'one', after: 'one more' },
  { before: LONG, after: 'fact\n', failed: 'failed' },
  { before: LONG, after: 'gone' },
  { before: 'a', after: 'likes tea', label: 'likes' },
  { before: 'same', after: 'equal', agent_name: 'Tea lover' },
  { before: 'same', after: 'equal' },
  { before: 'same', after: 'equal', failed: 'cancelled' },
  { before: 'given up', after: 'given up', kind: 'detached', failed: 'expired' },
];

interface Listed {
  readonly id: string;
  readonly stale: boolean;
  readonly state: string;
}

const list = async (review: Review, query = ''): Promise<readonly Listed[]> => {
  const { status, body } = await api.call('GET', `${review.url}?limit=200&${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
};
const ids = (changes: readonly Listed[]) => changes.map(({ id }) => id).toSorted();
const idsAt = (review: Review, ...places: readonly number[]) =>
  places.map((place) => review.held[place]!.id).toSorted();
const editBlock = (review: Review, place: number, patch: object) =>
  api.call('PATCH', `/v1/blocks/${review.held[place]!.block_id}`, patch);
const settle = async (review: Review, verb: 'accept' | 'reject', body: object) => {
  const answer = await api.call('POST', `${review.url}/${verb}`, body);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
};

/** Follows the links of a list to its end. */
async function pagesOf(
  review: Review,
  query: string,
  between: (page: number) => Promise<unknown> = async () => {},
) {
  const seen: string[] = [];
  let url: string | undefined = `${review.url}?${query}`;
  for (let page = 0; url !== undefined; page++) {
    const { body, headers } = await api.call('GET', url);
    seen.push(...body.map(({ id }: Listed) => id));
    await between(page);
    url = /<([^>]*)>;\s*rel="next"/.exec(headers['link'] ?? '')?.[1];
  }
  return seen;
}

describe('the held changes of a batch', () => {
  test('are filtered by label, size, staleness, run and text', async () => {
    const review = await createReview(api, MIXED);
    await editBlock(review, 0, { value: 'by hand' });
    for (const [query, places] of [
      ['label=likes', [3]],
      ['shrunk=true', [1, 2]],
      ['shrunk=false', [0, 3, 4, 5, 6, 7]],
      ['stale=true', [0]],
      ['stale=false&state=held&shrunk=false', [3, 4, 5, 6, 7]],
      ['run_state=failed', [1]],
      ['run_state=cancelled&label=notes', [6]],
      ['ended_reason=expired', [7]],
      ['q=TEA', [3, 4]],
      ['q=ikes', [3]],
      ['q=%25', []],
    ] as const)
      expect(ids(await list(review, query)), query).toEqual(idsAt(review, ...places));
    const [equal] = await list(review, 'q=lover');
    const group = (equal as unknown as { change_group: string }).change_group;
    expect(ids(await list(review, `change_group=${group}`))).toEqual(idsAt(review, 4, 5, 6));
  });

  test('refuse filters that exclude each other, and say which', async () => {
    const review = await createReview(api, MIXED.slice(0, 1));
    for (const [query, path] of [
      ['stale=true&state=accepted', '?stale'],
      ['run_state=ready&ended_reason=max_steps', '?ended_reason'],
      ['sort=risk&order=desc', '?order'],
      [`after=${review.held[0]!.id}@-5`, '?after'],
      [`sort=risk&after=block-${UNKNOWN_UUID}`, '?after'],
      ['q=', null],
      ['change_group=x', '?change_group'],
    ] as const) {
      const { status, body } = await api.call('GET', `${review.url}?${query}`);
      expect([query, status, body.errors?.[0].path ?? null]).toEqual([
        query,
        path === null ? 200 : 422,
        path,
      ]);
    }
    const both = { run_state: 'acting', ended_reason: 'max_steps' };
    const { status, body } = await api.call('POST', `${review.url}/accept`, both);
    expect([status, body.errors[0].path]).toEqual([422, '/ended_reason']);
  });

  test('are sorted by risk: stale, of failed runs, shrunk, then most removed', async () => {
    const review = await createReview(api, [
      ...MIXED,
      { before: 'abcdef', after: 'abc' },
      { before: 'abcdef', after: 'ab' },
    ]);
    await editBlock(review, 3, { value: 'by hand' });
    const order = await pagesOf(review, 'sort=risk&limit=200');
    const places = order.map((id) => review.held.findIndex((held) => held.id === id));
    expect(places.slice(0, 4)).toEqual([3, 1, 7, 6]);
    expect(places.slice(4, 7)).toEqual([2, 9, 8]);
    const [last = ''] = order.toReversed();
    const before = await api.call('GET', `${review.url}?sort=risk&limit=2&before=${last}`);
    expect(before.body.map(({ id }: Listed) => id)).toEqual(order.slice(-3, -1));
  });

  test('are each listed once by risk, though pages are settled and become stale meanwhile', async () => {
    const review = await createReview(
      api,
      Array.from({ length: 11 }, (_, n) => ({ before: 'x'.repeat(20), after: 'x'.repeat(n % 4) })),
    );
    const all = await pagesOf(review, 'sort=risk&limit=3');
    expect(all.toSorted()).toEqual(ids(await list(review)));
    const placeOf = (id: string | undefined) => review.held.findIndex((held) => held.id === id);
    const seen = await pagesOf(review, 'sort=risk&limit=3&state=held', async (page) => {
      // The cursor of each page moves: it is accepted, or its block is edited.
      if (page === 0) await settle(review, 'accept', { change_ids: [all[2]] });
      if (page === 1) await editBlock(review, placeOf(all[5]), { value: 'by hand' });
    });
    expect(seen).toEqual(all);
  });

  test('say why they are stale, who wrote the block, and show three texts', async () => {
    const review = await createReview(
      api,
      Array.from({ length: 5 }, () => ({ before: 'before', after: 'a longer text', limit: 1_000 })),
    );
    const [byApi, , readOnly, small] = review.held;
    await editBlock(review, 0, { value: 'by hand' });
    await api.call('DELETE', `/v1/blocks/${review.held[1]!.block_id}`);
    await editBlock(review, 2, { read_only: true });
    await editBlock(review, 3, { limit: 8 });
    const changes = await list(review, 'include=values');
    const reasonOf = (id: string) => changes.find((change) => change.id === id);
    expect(reasonOf(byApi!.id)).toMatchObject({
      stale: true,
      stale_because: { reason: 'edited', revision: 2, written_by: 'api', job_id: null, run_id: null },
      values: { worked_from: 'before', proposed: 'a longer text', now: 'by hand' },
    });
    expect(reasonOf(review.held[1]!.id)).toMatchObject({
      stale_because: { reason: 'deleted' },
      values: { now: null },
    });
    expect(reasonOf(readOnly!.id)).toMatchObject({ stale_because: { reason: 'read_only' } });
    expect(reasonOf(small!.id)).toMatchObject({ stale_because: { reason: 'over_limit', revision: 2 } });
    expect(reasonOf(review.held[4]!.id)).toMatchObject({ stale: false, stale_because: null });
    expect((await list(review))[0]).toMatchObject({ values: null });
    // An accept refuses the same changes, for the same reasons.
    const report = await settle(review, 'accept', {});
    expect(report.accepted).toBe(1);
    expect(report.stale.map(({ reason }: { reason: string }) => reason).toSorted()).toEqual([
      ...['deleted', 'edited', 'over_limit', 'read_only'],
    ]);
    expect(await list(review, 'stale=true&state=held')).toHaveLength(4);
    expect((await list(review, 'state=accepted'))[0]).toMatchObject({ stale: false });
  });

  test('name the run that made them stale', async () => {
    const review = await createReview(api, MIXED.slice(0, 1));
    const other = await createReview(api, MIXED.slice(0, 1));
    await api.database.pool.query(
      `with n as (insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on, batch_id, run_id,
                                              step_number, tool_use_id, resolution)
                  select $1, 2, project_id, 'by a run', 1000, false, 1, batch_id, id, 1, 'toolu_2', 'clean'
                    from run where batch_id = $2 returning block_id)
       update block set head_revision = 2 where id in (select block_id from n)`,
      [review.held[0]!.block_id.slice(6), other.job_id.slice(4)],
    );
    expect((await list(review))[0]).toMatchObject({
      stale_because: { written_by: 'run', job_id: other.job_id, run_id: expect.stringMatching(/^run-/) },
    });
  });

  test('are counted as the list shows them, equal changes as groups', async () => {
    const review = await createReview(api, MIXED);
    await editBlock(review, 0, { value: 'by hand' });
    await settle(review, 'accept', { change_ids: [review.held[4]!.id] });
    await settle(review, 'reject', { change_ids: [review.held[5]!.id] });
    const summary = async (query = '') => (await api.call('GET', `${review.url}/summary?${query}`)).body;
    expect(await summary()).toMatchObject({
      total: 8,
      states: { held: 6, accepted: 1, rejected: 1 },
      shrunk: 2,
      stale: 1,
      run_states: { completed: 5, failed: 1, cancelled: 1, expired: 1 },
      labels: [
        { label: 'notes', changes: 7 },
        { label: 'likes', changes: 1 },
      ],
      groups_total: 6,
    });
    expect((await summary('groups=1')).groups).toEqual([
      {
        change_group: expect.stringMatching(/^[0-9a-f]{32}$/),
        changes: 3,
        held: 1,
        label: 'notes',
        sample_id: idsAt(review, 4, 5, 6)[0],
      },
    ]);
    for (const query of [
      'state=held',
      'shrunk=true',
      'stale=true',
      'q=tea',
      'run_state=completed&label=notes',
    ])
      expect((await summary(query)).total, query).toBe((await list(review, query)).length);
    expect(await summary('q=nowhere')).toMatchObject({
      total: 0,
      stale: 0,
      labels: [],
      groups: [],
      run_states: {},
    });
    expect((await api.call('GET', `/v1/batches/job-${UNKNOWN_UUID}/held-changes/summary`)).status).toBe(404);
  });
});

describe('held changes are settled by filter', () => {
  const FILTERS = [
    { label: 'likes' },
    { shrunk: true, run_state: 'failed' },
    { shrunk: true },
    { ended_reason: 'expired' },
    { q: 'lover' },
    { q: 'EQUAL', stale: false },
    { stale: true },
    {},
  ] as const;

  test.each(['accept', 'reject'] as const)(
    '%s settles what the list with the same filter shows',
    async (verb) => {
      const review = await createReview(api, [...MIXED, ...MIXED]);
      await editBlock(review, 0, { value: 'by hand' });
      const done = verb === 'accept' ? 'accepted' : 'rejected';
      for (const filter of FILTERS) {
        const query = new URLSearchParams(
          Object.entries(filter).map(([name, value]): [string, string] => [name, String(value)]),
        );
        const shown = await list(review, `state=held&${query.toString()}`);
        const expected = shown.filter(({ stale }) => verb === 'reject' || !stale);
        const before = ids(await list(review, `state=${done}`));
        const dry = await settle(review, verb, { ...filter, dry_run: true });
        expect(ids(await list(review, `state=held&${query.toString()}`))).toEqual(ids(shown));
        const report = await settle(review, verb, filter);
        expect(dry).toEqual(report);
        expect(report[done], String(query)).toBe(expected.length);
        if (verb === 'accept') expect(report.stale).toHaveLength(shown.length - expected.length);
        expect(ids(await list(review, `state=${done}`))).toEqual([...before, ...ids(expected)].toSorted());
      }
    },
  );

  test('except for some, and unknown ids settle nothing', async () => {
    const review = await createReview(api, MIXED);
    const except_ids = [review.held[1]!.id, review.held[2]!.id];
    for (const field of ['except_ids', 'change_ids']) {
      const { status, body } = await api.call('POST', `${review.url}/accept`, {
        [field]: [review.held[1]!.id, `block-${UNKNOWN_UUID}`],
      });
      expect([status, body.errors[0].path]).toEqual([404, `/${field}/1`]);
    }
    expect(await settle(review, 'accept', { except_ids })).toMatchObject({ accepted: 6, stale: [] });
    expect(ids(await list(review, 'state=held'))).toEqual(except_ids.toSorted());
    expect(await settle(review, 'reject', { except_ids: except_ids.slice(0, 1) })).toEqual({
      rejected: 1,
      passages: 0,
    });
  });

  test('a dry run that would rebase or force changes nothing', async () => {
    const review = await createReview(api, [{ before: 'a\nb\nc', after: 'a\nb\nC' }]);
    await editBlock(review, 0, { value: 'A\nb\nc' });
    for (const on_conflict of ['rebase', 'force']) {
      const dry = await settle(review, 'accept', { on_conflict, dry_run: true });
      expect(dry).toMatchObject({ accepted: 1, stale: [] });
    }
    expect(await list(review, 'stale=true&state=held')).toHaveLength(1);
    const block = `/v1/blocks/${review.held[0]!.block_id}`;
    expect((await api.call('GET', block)).body).toMatchObject({ value: 'A\nb\nc', revision: 2 });
    expect(await settle(review, 'accept', { on_conflict: 'rebase' })).toMatchObject({ accepted: 1 });
    expect((await api.call('GET', block)).body.value).toBe('A\nb\nC');
  });
});

describe('a held change is edited', () => {
  const edit = (review: Review, place: number, body: object) =>
    api.call('PATCH', `${review.url}/${review.held[place]!.id}`, body);

  test('and applies the edited text, in the name of its call, and can be reverted', async () => {
    const review = await createReview(api, MIXED);
    const edited = await edit(review, 0, { value: 'one and a half', expected: 'one more' });
    expect(edited.status, JSON.stringify(edited.body)).toBe(200);
    expect(edited.body).toMatchObject({
      id: review.held[0]!.id,
      state: 'held',
      edited_at: expect.any(String),
      values: { worked_from: 'one', proposed: 'one and a half', now: 'one' },
    });
    expect(edited.body.diff).toContain('+one and a half');
    // The same text again is no edit.
    expect((await edit(review, 0, { value: 'one and a half' })).body.edited_at).toBe(edited.body.edited_at);
    expect((await edit(review, 3, { value: 'likes tea' })).body.edited_at).toBeNull();
    expect(await settle(review, 'accept', {})).toMatchObject({ accepted: 8, stale: [] });
    const block = `/v1/blocks/${review.held[0]!.block_id}`;
    expect((await api.call('GET', block)).body.value).toBe('one and a half');
    expect((await api.call('GET', `${block}/revisions`)).body[0]).toMatchObject({
      resolution: 'edited',
      job_id: review.job_id,
      tool_call_id: 'toolu_1',
    });
    await api.call('POST', `/v1/batches/${review.job_id}/revert`, {});
    expect((await api.call('GET', block)).body.value).toBe('one');
  });

  test('within the limit of its block, from the expected text, and while it is held', async () => {
    const review = await createReview(api, [
      { before: 'a', after: 'b', limit: 10 },
      { before: 'a', after: 'b' },
      { before: 'a', after: 'a', kind: 'detached' },
    ]);
    const answer = async (place: number, body: object) => {
      const { status, body: problem } = await edit(review, place, body);
      return [status, problem.code, problem.errors?.[0]?.path ?? null];
    };
    expect(await answer(0, { value: 'x'.repeat(11) })).toEqual([422, 'validation_failed', '/value']);
    expect(await answer(0, { value: 'c', expected: 'other' })).toEqual([409, 'conflict', null]);
    expect(await answer(2, { value: 'c' })).toEqual([422, 'validation_failed', '/value']);
    expect(await answer(0, {})).toEqual([422, 'validation_failed', '/value']);
    await editBlock(review, 1, { read_only: true });
    expect(await answer(1, { value: 'c' })).toEqual([409, 'conflict', null]);
    await settle(review, 'reject', { change_ids: [review.held[0]!.id] });
    expect(await answer(0, { value: 'c' })).toEqual([409, 'conflict', null]);
    expect((await api.call('PATCH', `${review.url}/block-${UNKNOWN_UUID}`, { value: 'c' })).status).toBe(404);
    expect(
      (await list(review)).every((change) => !('edited_at' in change) || change.edited_at === null),
    ).toBe(true);
  });

  test('again after a lost answer: the text in the draft already is no conflict', async () => {
    const review = await createReview(api, MIXED.slice(0, 1));
    const body = { value: 'one and a half', expected: 'one more' };
    const first = await edit(review, 0, body);
    const again = await edit(review, 0, body);
    expect([again.status, again.body]).toEqual([200, first.body]);
  });

  test('only once the runs of its agent have ended', async () => {
    const review = await createReview(api, MIXED.slice(0, 1), { open: true });
    const { status, body } = await edit(review, 0, { value: 'c' });
    expect([status, body.code]).toEqual([409, 'batch_running']);
  });
});

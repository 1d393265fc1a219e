import { BATCH_REQUESTS_MAX, toMarkByte } from '@nightshift/agent-core';
import {
  readTokenCalibrations,
  type ClaimedProviderBatch,
  type SealedRequest,
  type TokenSample,
} from '@nightshift/db';
import { openEncoder, readRequests } from '@nightshift/intake';
import type { HeldLease } from '../../leases/keeper.ts';
import type { BodyFile } from '../../provider/body-file.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import {
  fitRequests,
  mayNotFit,
  poisonous,
  sampleTokens,
  type Calibrations,
  type EncodedRequest,
  type TokenSamples,
  type UnsendableRequest,
} from '../../flow-parts/requests/fit-requests.ts';
import { openCacheMarks, type CacheMarksOfPage } from '../../flow-parts/requests/cache-marks.ts';
import { openPageSizes, type PageSizes } from '../../flow-parts/requests/page-sizes.ts';
import { createUtf8Blocks } from './utf8-blocks.ts';

/** Results of encoding, besides the file. */
export interface Encoding {
  /** Steps that are not sent, each with the outcome that ends its run. */
  readonly unsendable: readonly UnsendableRequest[];
  readonly token_samples: readonly TokenSample[];
  /** Requests in the file by batch. */
  readonly steps_by_batch: ReadonlyMap<string, number>;
  /** Cache marks of the requests in the file, a byte each; empty if none has any. */
  readonly cache_marks: Buffer;
}

/** Encodes requests in order until all are in the file or the next does not fit. */
export async function encodeRequests(
  deps: FlowDeps,
  batch: ClaimedProviderBatch,
  requests: number,
  file: BodyFile,
  lease: HeldLease,
): Promise<Encoding> {
  const samples: TokenSamples = new Map();
  const sizes = openPageSizes(deps, batch.id, requests);
  const calibrations = await readTokenCalibrations(deps.db);
  const pass: EncodingPass = {
    batch,
    lease,
    file,
    samples,
    steps: new Map(),
    marks: [],
    unsendable: [],
    calibrations,
    cacheMarks: await openCacheMarks(deps, batch, calibrations),
    sizes,
  };
  for (let from = 0; from < requests;) {
    lease.signal.throwIfAborted();
    const to = from + (await sizes.next(from));
    const page = await readRequests(deps, deps.db, batch.id, from, to);
    // A request in the wrong place would be taken for another that is not sent.
    if (page.length < to - from)
      throw new Error(`Provider batch ${batch.id} lacks requests from ${from} to ${to}.`);
    if (!(await appendPage(deps, pass, page, { from, to }))) break;
    from = to;
  }
  return {
    unsendable: pass.unsendable,
    token_samples: [...samples.values()].flatMap((kept) => kept.map(({ sample }) => sample)),
    steps_by_batch: pass.steps,
    cache_marks: Buffer.from(pass.marks.some((byte) => byte > 0) ? pass.marks : []),
  };
}

interface EncodingPass {
  readonly batch: ClaimedProviderBatch;
  readonly lease: HeldLease;
  readonly file: BodyFile;
  readonly samples: TokenSamples;
  readonly steps: Map<string, number>;
  readonly marks: number[];
  readonly unsendable: UnsendableRequest[];
  readonly calibrations: Calibrations;
  readonly cacheMarks: CacheMarksOfPage;
  readonly sizes: PageSizes;
}

/**
 * Appends requests; false at the first that does not fit. The first of a file always fits: the provider judges it.
 */
async function appendPage(
  deps: FlowDeps,
  pass: EncodingPass,
  page: readonly SealedRequest[],
  range: { readonly from: number; readonly to: number },
): Promise<boolean> {
  const { batch, lease, file, calibrations, sizes } = pass;
  let encoded = await encodePage(deps, pass, page);
  sizes.learn(
    page.length,
    encoded.reduce((sum, { bytes }) => sum + bytes, 0),
  );
  const tight = encoded.filter((each) => mayNotFit(each, calibrations));
  if (tight.length > 0) {
    const out = await fitRequests(deps, batch.id, lease, tight, calibrations);
    pass.unsendable.push(...out);
    // Some requests are now shorter, or ask for a summary.
    const ends = new Set(out.map(({ key }) => key.run_id));
    const fitted = await readRequests(deps, deps.db, batch.id, range.from, range.to);
    const kept = new Set(encoded.map(({ request }) => request.run_id));
    encoded = await encodePage(
      deps,
      pass,
      fitted.filter(({ run_id }) => kept.has(run_id) && !ends.has(run_id)),
    );
  }
  for (const each of encoded) {
    // A seal takes whole chunks, so a page can exceed the provider's limit of requests.
    if (file.count >= BATCH_REQUESTS_MAX) return false;
    if (file.count > 0 && file.bytesWith(each.body.length) > deps.settings.body_bytes_max) return false;
    await file.append(each.body);
    pass.marks.push(toMarkByte(each.marks));
    const { batch_id } = each.request;
    pass.steps.set(batch_id, (pass.steps.get(batch_id) ?? 0) + 1);
    sampleTokens(pass.samples, each);
  }
  return true;
}

/** Encodes the requests of a page. Requests that cannot be built are added to `unsendable`. */
async function encodePage(
  deps: FlowDeps,
  { batch, unsendable, cacheMarks }: EncodingPass,
  page: readonly SealedRequest[],
): Promise<readonly EncodedRequest[]> {
  const encode = await openEncoder(deps, deps.db, batch.nonce, page, await cacheMarks(page));
  const toBytes = createUtf8Blocks();
  const encoded: EncodedRequest[] = [];
  for (const request of page) {
    try {
      const { parts, images, made_by, marks } = encode(request);
      const { definition, toolPolicy } = made_by;
      const { model_name } = toolPolicy;
      const body = toBytes(parts);
      encoded.push({ request, definition, model_name, body, bytes: body.length, images, marks });
    } catch (error) {
      unsendable.push(poisonous(request, error));
    }
  }
  return encoded;
}

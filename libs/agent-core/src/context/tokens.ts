import { isJsonObject, type Json } from '../base/json.ts';
import type { ContentBlock } from '../model/content.ts';

/** Bytes of request JSON per token, learnt from answers for each model. */
export interface TokenCalibration {
  readonly bytes_per_token: number;
  /** Number of answers learnt from. */
  readonly samples: number;
}

/** Used before any answer: low for prose, so that a first estimate is rather too high. */
export const TOKEN_CALIBRATION_DEFAULT: TokenCalibration = { bytes_per_token: 3, samples: 0 };

/** Tokens of an image at the size to which the provider scales large images. */
export const IMAGE_TOKENS = 1_600;
const BYTES_PER_TOKEN_MIN = 1;
const BYTES_PER_TOKEN_MAX = 8;
/** Shorter prompts tell more about fixed parts than about text. */
const SAMPLE_TOKENS_MIN = 200;
/** Inverse of an answer's minimum weight, so that a changed tokenizer is noticed. */
const SAMPLES_REMEMBERED = 50;

/** Estimates the tokens of `bytes` bytes of request JSON without images, rounded up. */
export function estimateTokens(
  bytes: number,
  calibration: TokenCalibration = TOKEN_CALIBRATION_DEFAULT,
): number {
  return Math.ceil(bytes / calibration.bytes_per_token);
}

const encoder = new TextEncoder();

/** Estimates the tokens of a message's content. Images count by their tokens at the provider, not by their bytes. */
export function estimateContentTokens(
  content: readonly ContentBlock[],
  calibration: TokenCalibration = TOKEN_CALIBRATION_DEFAULT,
): number {
  let images = 0;
  const text = JSON.stringify(content, (_key, part: Json) => {
    if (!isJsonObject(part) || part['type'] !== 'image') return part;
    images++;
    return null;
  });
  return estimateTokens(encoder.encode(text).length, calibration) + images * IMAGE_TOKENS;
}

/** Most bytes of JSON for a character of text. */
const CHAR_BYTES_MAX = 6;

/**
 * Returns the size of a message's content that is longer than the window by any calibration; null for other content. The
 * tokens are the fewest possible.
 */
export function sizeBeyondWindow(
  content: readonly ContentBlock[],
  windowTokens: number,
): { readonly bytes: number; readonly tokens: number } | null {
  const chars = content.reduce(
    (sum, { text }) => sum + (typeof text === 'string' ? text.length : Infinity),
    0,
  );
  // Most messages are too short to be measured.
  if ((chars * CHAR_BYTES_MAX) / BYTES_PER_TOKEN_MAX < windowTokens / 2) return null;
  const tokens = estimateContentTokens(content, { bytes_per_token: BYTES_PER_TOKEN_MAX, samples: 0 });
  if (tokens <= windowTokens) return null;
  return { bytes: encoder.encode(JSON.stringify(content)).length, tokens };
}

/** Returns the bytes of a token in a sample, within reason; null for a prompt too short to be a sample. */
export function sampledBytesPerToken({
  bytes,
  tokens,
}: {
  readonly bytes: number;
  readonly tokens: number;
}): number | null {
  if (tokens < SAMPLE_TOKENS_MIN) return null;
  return Math.min(BYTES_PER_TOKEN_MAX, Math.max(BYTES_PER_TOKEN_MIN, bytes / tokens));
}

/**
 * Learns from an answer: `bytes` of request JSON without images took `tokens` prompt tokens, cached or not.
 * Short requests are ignored; an unreasonable value counts as the nearest reasonable value.
 */
export function calibrate(
  calibration: TokenCalibration,
  request: { readonly bytes: number; readonly tokens: number },
): TokenCalibration {
  const seen = sampledBytesPerToken(request);
  if (seen === null) return calibration;
  const { bytes_per_token, samples } = calibration;
  const weight = 1 / Math.min(samples + 1, SAMPLES_REMEMBERED);
  return {
    bytes_per_token: bytes_per_token + (seen - bytes_per_token) * weight,
    samples: samples + 1,
  };
}

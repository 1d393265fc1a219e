import type { JsonObject, ResultFormat } from '@nightshift/agent-core';
import type { ResponseFormat } from './request.ts';

/** Converts Letta's response format to a result format; null for `text`. */
export function toResultFormat(format: ResponseFormat): ResultFormat | null {
  switch (format.type) {
    case 'text':
      return null;
    case 'json_object':
      return { schema: { type: 'object' } };
    case 'json_schema':
      return { schema: format.json_schema.schema as JsonObject };
  }
}

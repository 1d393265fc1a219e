import { z } from 'zod';

/** Maximum number of reported issues; reading stops there. A list may hold millions of items. */
export const ISSUES_MAX = 100;

interface BoundedArrayDef extends z.core.$ZodArrayDef {
  readonly max: number;
}
const BoundedArray = z.core.$constructor<z.ZodArray, BoundedArrayDef>('BoundedArray', (inst, def) => {
  z.ZodArray.init(inst, def);
  const readWhole = inst._zod.parse.bind(inst._zod);
  inst._zod.parse = (payload, context) => {
    const value: unknown = payload.value;
    if (!Array.isArray(value) || value.length > def.max) return readWhole(payload, context);
    const items: unknown[] = [];
    for (const [index, item] of (value as readonly unknown[]).entries()) {
      const read = def.element._zod.run({ value: item, issues: [] }, context);
      if (read instanceof Promise) throw new z.core.$ZodAsyncError();
      items.push(read.value);
      for (const issue of read.issues)
        payload.issues.push({ ...issue, path: [index, ...(issue.path ?? [])] });
      if (payload.issues.length >= ISSUES_MAX) break;
    }
    payload.value = items;
    return payload;
  };
});

/**
 * Makes a schema of a list with at most `max` items.
 * A longer list is refused unread. Reading stops after about 100 issues, which bounds the cost of a refusal.
 */
export function listOf<Item extends z.core.SomeType>(item: Item, max: number): z.ZodArray<Item> {
  const checks = [z.maxLength(max)];
  return new BoundedArray({
    type: 'array',
    element: item as never,
    checks,
    max,
  }) as unknown as z.ZodArray<Item>;
}

interface BoundedRecordDef extends z.core.$ZodRecordDef {
  readonly max: number;
}
const BoundedRecord = z.core.$constructor<z.ZodRecord, BoundedRecordDef>('BoundedRecord', (inst, def) => {
  z.ZodRecord.init(inst, def);
  const readWhole = inst._zod.parse.bind(inst._zod);
  inst._zod.parse = (payload, context) => {
    const value: unknown = payload.value;
    const isObject = typeof value === 'object' && value !== null;
    if (!isObject || Object.keys(value).length <= def.max) return readWhole(payload, context);
    const message = `Too big: expected an object of <=${def.max} entries`;
    payload.issues.push({ code: 'custom', input: value, inst, message, params: {} });
    return payload;
  };
});

/** Makes a schema of an object with at most `max` entries. A larger object is refused unread. */
export function recordOf<Value extends z.core.SomeType>(
  value: Value,
  max: number,
): z.ZodRecord<z.ZodString, Value> {
  const record = new BoundedRecord({ type: 'record', keyType: z.string(), valueType: value as never, max });
  return record.meta({ maxProperties: max }) as unknown as z.ZodRecord<z.ZodString, Value>;
}

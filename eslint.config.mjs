import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';
import { plainWords } from './scripts/lint/plain-words.ts';

const tests = ['**/test/**/*.{ts,tsx}'];
const scripts = ['scripts/**/*.{ts,mjs}'];
const configFiles = ['*.config.{ts,mjs}', '**/*.config.{ts,mjs}', '.dependency-cruiser.cjs'];

/** Bans that hold everywhere. A later `no-restricted-syntax` replaces an earlier one, so each list is spelled out. */
const noEnum = {
  selector: 'TSEnumDeclaration',
  message: 'Write a union of string literals; Node runs these files by stripping types, and enums are code.',
};
const noDefaultExport = {
  selector: 'ExportDefaultDeclaration',
  message: 'Export by name, so that a thing has one name everywhere.',
};
const noEnvironment = {
  selector: "MemberExpression[object.name='process'][property.name='env']",
  message: 'The environment is read in config.ts alone, parsed there, and handed on as values.',
};
const noPoolInTransaction = {
  selector:
    ":matches(CallExpression[callee.name='inTransaction'] > :function, CallExpression[callee.property.name='execute'] > :function[params.0.name='trx']) Identifier[name=/^(db|pool)$/]",
  message: 'Use trx inside a transaction: a second connection taken there can deadlock the pool.',
};
const noClock = [
  {
    selector: "NewExpression[callee.name='Date'][arguments.length=0]",
    message: 'The core knows no clock: take `now` as a parameter.',
  },
  {
    selector: "CallExpression[callee.name='Date']",
    message: 'The core knows no clock: take `now` as a parameter.',
  },
];

/** Effects that the pure core must be handed by its caller. */
const effects = [
  ...[
    'setTimeout',
    'setInterval',
    'setImmediate',
    'queueMicrotask',
    'performance',
    'process',
    'fetch',
    'crypto',
  ],
  ...['console', 'Buffer', 'require', 'globalThis'],
].map((name) => ({ name, message: 'agent-core is pure: no clock, no timers, no process, no I/O.' }));

export default defineConfig(
  globalIgnores([
    '**/node_modules/**',
    '**/dist/**',
    '**/coverage/**',
    '.data/**',
    '.nx/**',
    // Programs that tests run, some of them broken on purpose.
    '**/test/fixtures/**',
    // Written by `npm run gen-client`.
    'libs/client/src/generated/**',
  ]),
  {
    files: ['**/*.{ts,tsx}'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-console': 'error',
      'no-restricted-syntax': ['error', noEnum, noDefaultExport, noEnvironment, noPoolInTransaction],
      'no-restricted-imports': [
        'error',
        {
          paths: [
            { name: 'node:process', message: 'Use the global; its environment is read in config.ts alone.' },
            { name: 'fast-check', message: 'Import fc from test/fast-check.ts, which gives it its seed.' },
          ],
        },
      ],
      'no-restricted-properties': [
        'error',
        {
          object: 'sql',
          property: 'raw',
          message: 'Bind values, and name identifiers with sql.ref or sql.id.',
        },
        { object: 'sql', property: 'lit', message: 'Bind values: ${value}.' },
      ],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/consistent-type-exports': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      // Numbers and booleans in messages read well and cannot surprise; objects and undefined stay forbidden.
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      // `() => resolve()` and `(x) => log(x)` are not worth braces.
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      // `for (;;)` and `while (true)` are how a loop with its exit in the middle is written.
      '@typescript-eslint/no-unnecessary-condition': ['error', { allowConstantLoopConditions: true }],
      // A leading underscore says that a parameter is there for its position.
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', ignoreRestSiblings: true },
      ],
      // `content['type']` says that a key of a record is data; `content.type` is fine too.
      '@typescript-eslint/dot-notation': ['error', { allowIndexSignaturePropertyAccess: true }],
      // Spreading a string into its characters (code points, not UTF-16 units) is meant.
      '@typescript-eslint/no-misused-spread': ['error', { allow: ['string'] }],
      // Off: the record form cannot describe a type that contains itself, such as JSON.
      '@typescript-eslint/consistent-indexed-object-style': 'off',
      // Off: an empty function says that nothing happens, which is what a stand-in or a silenced error wants to say.
      '@typescript-eslint/no-empty-function': 'off',
      // Off: it does not know `Promise.withResolvers<void>()`.
      '@typescript-eslint/no-invalid-void-type': 'off',
      // Off: an `async` function without `await` turns a throw into a rejection, which its callers rely on.
      '@typescript-eslint/require-await': 'off',
      // Off: `as const`-free literal types and `type` for a union of records beside `interface` are matters of taste.
      '@typescript-eslint/consistent-type-definitions': 'off',
      // Off: `readonly X[]` and `ReadonlyArray<X>` both read well, the latter around a union or a function type.
      '@typescript-eslint/array-type': 'off',
      // Off: `if (x === '' ) ...` versus `x || y` on strings; an empty setting counts as absent here.
      '@typescript-eslint/prefer-nullish-coalescing': 'off',
      // Off: it would ask for `x!`, which another rule forbids.
      '@typescript-eslint/non-nullable-type-assertion-style': 'off',
      // Off: a type parameter used once may still name what a caller must supply (`readRow<Row>(sql)`).
      '@typescript-eslint/no-unnecessary-type-parameters': 'off',
    },
  },
  {
    // The one place per program that reads the environment.
    files: ['**/src/config.ts'],
    rules: { 'no-restricted-syntax': ['error', noEnum, noDefaultExport, noPoolInTransaction] },
  },
  {
    // A program hands its environment, whole, to the function that parses it.
    files: ['apps/*/src/main.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        noEnum,
        noDefaultExport,
        noPoolInTransaction,
        {
          ...noEnvironment,
          selector: `${noEnvironment.selector}:not(CallExpression[callee.name='readConfig'] > *)`,
        },
      ],
    },
  },
  {
    // Programs speak to their user.
    files: ['apps/*/src/main.ts'],
    rules: { 'no-console': 'off' },
  },
  {
    files: scripts,
    rules: {
      'no-console': 'off',
      'no-restricted-syntax': ['error', noEnum, noDefaultExport, noPoolInTransaction],
    },
  },
  {
    files: configFiles,
    rules: { 'no-restricted-syntax': ['error', noEnum] },
  },
  {
    files: ['libs/agent-core/src/**/*.ts'],
    rules: {
      'no-restricted-globals': ['error', ...effects],
      'no-restricted-syntax': ['error', noEnum, noDefaultExport, noEnvironment, ...noClock],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: 'The core knows no clock: take `now` as a parameter.' },
        {
          object: 'Math',
          property: 'random',
          message: 'The core rolls no dice: take ids and jitter as parameters.',
        },
      ],
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            { regex: '^node:', message: 'agent-core is pure and knows no Node.' },
            {
              regex: '^(?!\\.|zod$|zod/|(ajv|ajv-formats)($|/))',
              message: 'agent-core imports itself, zod and ajv alone.',
            },
          ],
        },
      ],
    },
  },
  {
    files: ['libs/client/src/**/*.ts'],
    ignores: ['libs/client/src/create-from-file.ts'],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [{ regex: '^node:', message: 'The client runs in browsers, Bun and Deno, too.' }],
        },
      ],
      'no-restricted-globals': [
        'error',
        ...['process', 'Buffer', 'require'].map((name) => ({
          name,
          message: 'The client runs in browsers, Bun and Deno, too.',
        })),
      ],
    },
  },
  {
    files: ['apps/worker/src/{flows,flow-parts}/**/*.ts', 'apps/api/src/routes/**/*.ts'],
    rules: {
      'no-restricted-globals': [
        'error',
        ...['fetch', 'WebSocket', 'globalThis'].map((name) => ({
          name,
          message: 'Flows and routes are handed the provider, the tools and the bell.',
        })),
      ],
    },
  },
  {
    // Schema definitions are constant text, which the builder has no words for.
    files: ['libs/db/src/migrations/**/*.ts', 'libs/db/src/testing/**/*.ts'],
    rules: { 'no-restricted-properties': 'off' },
  },
  {
    files: tests,
    rules: {
      // A test prints to the terminal, chooses its engine, and hands vitest a default export.
      'no-console': 'off',
      'no-restricted-syntax': ['error', noEnum],
      'no-restricted-properties': 'off',
      // Off: parsed JSON is `any`, and the expectation that follows is the check.
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      // Off: where an expectation has just shown that a thing is there, `!` is plainer than a second check.
      '@typescript-eslint/no-non-null-assertion': 'off',
      // Off: a fake may be a generator that only throws.
      'require-yield': 'off',
      // Off: `expect(fake.method)` asks about the method and does not call it.
      '@typescript-eslint/unbound-method': 'off',
    },
  },
  {
    files: ['test/fast-check.ts'],
    rules: { 'no-restricted-imports': 'off' },
  },
  {
    files: ['**/*.{ts,mjs,cjs}'],
    plugins: { nightshift: { rules: { 'plain-words': plainWords } } },
    rules: { 'nightshift/plain-words': 'error' },
  },
  {
    // Plain JavaScript: no types to ask for.
    files: ['**/*.{mjs,cjs,js}'],
    languageOptions: {
      globals: {
        process: 'readonly',
        console: 'readonly',
        module: 'readonly',
        URL: 'readonly',
        performance: 'readonly',
        setTimeout: 'readonly',
        setInterval: 'readonly',
        clearInterval: 'readonly',
      },
    },
    rules: {
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-undef': 'error',
      'no-unused-vars': 'error',
    },
  },
);

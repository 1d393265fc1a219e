import { join, relative } from 'node:path';
import ts from 'typescript';

/** A statement of libs/db/src with a row type: sql<Row>`…`.execute(…), or readCutPage<Row>(…). */
export interface TypedStatement {
  readonly file: string;
  readonly first_line: number;
  readonly last_line: number;
  /** By name. Undefined: the type is a parameter of the function, named by its callers. */
  readonly columns: Readonly<Record<string, TypedColumn>> | undefined;
  /** The type has an index signature: the result may have further columns. */
  readonly is_open: boolean;
}

export interface TypedColumn {
  /** Kinds of the values besides null; empty: any. */
  readonly kinds: readonly string[];
  readonly nullable: boolean;
  /** May be absent from the result. */
  readonly optional: boolean;
}

const ROOT = join(import.meta.dirname, '../../../..');

/** Reads the typed statements from the sources of libs/db. */
export function describeStatements(): readonly TypedStatement[] {
  const configFile = join(ROOT, 'libs/db/tsconfig.json');
  const { config } = ts.readConfigFile(configFile, (path) => ts.sys.readFile(path)) as { config: unknown };
  const { fileNames, options } = ts.parseJsonConfigFileContent(config, ts.sys, join(ROOT, 'libs/db'));
  const program = ts.createProgram(fileNames, options);
  const checker = program.getTypeChecker();
  const found: TypedStatement[] = [];
  for (const source of program.getSourceFiles()) {
    const file = relative(ROOT, source.fileName);
    if (!file.startsWith('libs/db/src/')) continue;
    const visit = (node: ts.Node): void => {
      const row = ts.isCallExpression(node) ? rowTypeOf(node) : undefined;
      if (row !== undefined) {
        const lineAt = (place: number): number => source.getLineAndCharacterOfPosition(place).line + 1;
        const type = checker.getTypeFromTypeNode(row);
        found.push({
          file,
          first_line: lineAt(node.getStart()),
          last_line: lineAt(node.end),
          columns: columnsOf(checker, type, node),
          is_open: type.getStringIndexType() !== undefined,
        });
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  return found;
}

/** Returns the row type named by a call. */
function rowTypeOf({ expression, typeArguments }: ts.CallExpression): ts.TypeNode | undefined {
  if (ts.isIdentifier(expression) && expression.text === 'readCutPage') return typeArguments?.[0];
  if (!ts.isPropertyAccessExpression(expression) || expression.name.text !== 'execute') return undefined;
  const statement = expression.expression;
  return ts.isTaggedTemplateExpression(statement) ? statement.typeArguments?.[0] : undefined;
}

function columnsOf(checker: ts.TypeChecker, row: ts.Type, place: ts.Node): TypedStatement['columns'] {
  const parts = row.isIntersection() ? row.types : [row];
  if (parts.some((part) => part.flags & ts.TypeFlags.TypeParameter)) return undefined;
  return Object.fromEntries(
    checker.getPropertiesOfType(row).map((property) => {
      const type = checker.getTypeOfSymbolAtLocation(property, place);
      const optional = (property.flags & ts.SymbolFlags.Optional) !== 0;
      const kinds = new Set((type.isUnion() ? type.types : [type]).map((each) => kindOf(checker, each)));
      const nullable = kinds.delete('null') || kinds.has('any');
      return [property.name, { kinds: kinds.has('any') ? [] : [...kinds], nullable, optional }];
    }),
  );
}

function kindOf(checker: ts.TypeChecker, type: ts.Type): string {
  const { flags } = type;
  if (flags & (ts.TypeFlags.Null | ts.TypeFlags.Undefined)) return 'null';
  if (flags & ts.TypeFlags.StringLike) return 'string';
  if (flags & ts.TypeFlags.NumberLike) return 'number';
  if (flags & ts.TypeFlags.BooleanLike) return 'boolean';
  if (checker.isArrayLikeType(type)) return 'array';
  if (flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown | ts.TypeFlags.TypeParameter)) return 'any';
  return type.symbol.name === 'Date' ? 'Date' : 'object';
}

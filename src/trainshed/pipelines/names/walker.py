"""Reads the code of a step in the order in which it runs, and notes what happens to each global name.

What runs at once and what runs later are kept apart: a function's body counts when the function is used, a class's body
at once, its methods later. A branch that may not run binds nothing for certain.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trainshed.pipelines.names.expressions import Expressions
from trainshed.pipelines.names.facts import is_generator, runs_at_least_once
from trainshed.pipelines.names.locals import arguments, bindings
from trainshed.pipelines.names.notes import Frame
from trainshed.pipelines.names.source import Code
from trainshed.pipelines.names.usage import Carried, Level, Need


class Walker(Expressions):
    """The state while code is read. Use `prelude` and `own` on it, in this order, then `usage`."""

    def prelude(self, codes: Sequence[Code]) -> tuple[Need, ...]:
        """Read the imports and functions cells. Return what they need at once, and no cell of theirs defines."""
        self._read(codes)
        return self.as_prelude()

    def own(self, codes: Sequence[Code]) -> None:
        """Read the step's own cells."""
        self._read(codes)
        self.defined_for_later()

    def _read(self, codes: Sequence[Code]) -> None:
        for code in codes:
            self._cell, self._line = code.cell, 1
            self._block(code.body)
            for name in code.binds:
                self._store(name)

    def _block(self, statements: Sequence[ast.stmt]) -> bool:
        """Read statements in order; say whether the block ends by leaving (raise, return, break, continue)."""
        for statement in statements:
            self._line = statement.lineno
            if self._statement(statement):
                return True
        return False

    def _statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.Expr(value=value):
                self._use(self._expression_statement(value))
            case ast.Assign(targets=targets, value=value):
                carried = self._expr(value, Level.TOUCH)
                for target in targets:
                    self._target(target, carried, value)
            case ast.AnnAssign(target=target, value=value, annotation=annotation):
                self._use(self._expr(annotation, Level.READ))
                if value is not None:
                    self._target(target, self._expr(value, Level.TOUCH), value)
            case ast.AugAssign(target=target, value=value):
                self._use(self._expr(value, Level.READ))
                if isinstance(target, ast.Name):
                    self._load(target.id, Level.BIND)
                self._target(target, {}, value)
            case ast.Delete(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        self._delete(target.id)
                    else:
                        self._target(target, {}, None)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node)
            case ast.ClassDef():
                self._class(node)
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.If(test=test, body=body, orelse=orelse):
                self._use(self._expr(test, Level.READ))
                return self._alternatives([body, orelse])
            case ast.For() | ast.AsyncFor():
                self._for(node)
            case ast.While(test=test, body=body, orelse=orelse):
                self._use(self._expr(test, Level.READ))
                self._alternatives([body, orelse])
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    carried = self._expr(item.context_expr, Level.TOUCH)
                    self._use(carried)
                    if item.optional_vars is not None:
                        self._target(item.optional_vars, carried, item.context_expr)
                return self._block(body)
            case (
                ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final)
                | ast.TryStar(body=body, handlers=handlers, orelse=orelse, finalbody=final)
            ):
                self._try(body, handlers, orelse)
                return self._block(final)
            case ast.Match(subject=subject, cases=cases):
                self._use(self._expr(subject, Level.TOUCH))
                with self._maybe():
                    for case in cases:
                        self._pattern(case)
            case ast.Return(value=value):
                if value is not None:
                    self._use(self._expr(value, Level.TOUCH))
                return True
            case ast.Raise(exc=exc, cause=cause):
                for part in (exc, cause):
                    if part is not None:
                        self._use(self._expr(part, Level.TOUCH))
                return True
            case ast.Assert(test=test, msg=message):
                for part in (test, message):
                    if part is not None:
                        self._use(self._expr(part, Level.READ))
            case ast.Break() | ast.Continue():
                return True
            case _:
                name = getattr(node, "name", None)  # `type X = ...`, which Python 3.11 does not know
                if isinstance(name, ast.Name):
                    self._store(name.id)
        return False

    def _expression_statement(self, value: ast.expr) -> Carried:
        """A call whose result nobody takes is made for its effect: `x.append(1)` changes x."""
        inner = value.value if isinstance(value, ast.Await) else value
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            self._use(self._expr(inner.func.value, Level.CHANGE))
        return self._expr(value, Level.READ)

    def _alternatives(self, branches: Sequence[Sequence[ast.stmt]]) -> bool:
        """Read branches of which one runs. Certain afterwards is what each that goes on has bound."""
        before = set(self._definite)
        ends: list[set[str]] = []
        self._branches += 1
        for branch in branches:
            self._definite = set(before)
            if not self._block(branch):
                ends.append(self._definite)
        self._branches -= 1
        self._definite = set.intersection(*ends) if ends else before
        return not ends

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        carried = self._expr(node.iter, Level.TOUCH)
        self._use(carried)
        certain = runs_at_least_once(node)
        before = set(self._definite)
        self._branches += not certain
        self._target(node.target, carried, None)
        self._block(node.body)
        self._branches -= not certain
        if not certain:
            self._definite &= before
        with self._maybe():
            self._block(node.orelse)

    def _try(
        self, body: Sequence[ast.stmt], handlers: Sequence[ast.ExceptHandler], orelse: Sequence[ast.stmt]
    ) -> None:
        before = set(self._definite)
        self._branches += bool(handlers)
        ends: list[set[str]] = []
        if not self._block([*body, *orelse]):
            ends.append(set(self._definite))
        for handler in handlers:
            self._definite = set(before)
            if handler.type is not None:
                self._use(self._expr(handler.type, Level.READ))
            fresh = handler.name is not None and handler.name not in self._possible
            if handler.name is not None:
                self._store(handler.name)
            if not self._block(handler.body):
                ends.append(set(self._definite))
            if handler.name is not None and self._later is None and not self._is_local(handler.name):
                for end in ends:
                    end.discard(handler.name)
                if fresh:
                    self._possible.discard(handler.name)
        self._branches -= bool(handlers)
        self._definite = set.intersection(*ends) if ends else before

    def _pattern(self, case: ast.match_case) -> None:
        for node in ast.walk(case.pattern):
            if isinstance(node, ast.MatchValue):
                self._use(self._expr(node.value, Level.READ))
            elif isinstance(node, ast.MatchClass):
                self._use(self._expr(node.cls, Level.READ))
        for name in bindings([case.pattern])[0]:
            self._store(name)
        if case.guard is not None:
            self._use(self._expr(case.guard, Level.READ))
        self._block(case.body)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                text = ast.unparse(ast.Import([alias]))
                name = alias.asname or alias.name.partition(".")[0]
            else:
                if node.module == "__future__":
                    continue
                text = ast.unparse(ast.ImportFrom(node.module, [alias], node.level))
                name = alias.asname or alias.name
            if name == "*":
                self._stars.append(text)
                continue
            earlier = self._imports.get(name)
            self._store(name, kind="import")
            if self._later is None and not self._frames:
                dotted = isinstance(node, ast.Import) and alias.asname is None and earlier not in (None, text)
                self._imports[name] = f"{earlier}\n{text}" if dotted else text

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        carried: Carried = {}
        for decorator in node.decorator_list:
            decoration = self._expr(decorator, Level.READ)
            self._use(decoration)
            carried |= decoration
        self._signature(node.args)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if argument.annotation is not None:
                self._use(self._expr(argument.annotation, Level.READ))
        if node.returns is not None:
            self._use(self._expr(node.returns, Level.READ))
        carried |= self._body(arguments(node.args), node.body)
        self._store(node.name, carried, kind="definition")
        if self._later is None and not self._frames and is_generator(node):
            self._generators.add(node.name)

    def _body(self, names: set[str], body: Sequence[ast.stmt] | ast.expr) -> Carried:
        """Return the global names that a function's body uses when it runs."""
        statements = body if isinstance(body, Sequence) else [ast.Expr(body, lineno=body.lineno)]
        bound, declared = bindings(statements)
        outer, line, branches = self._later, self._line, self._branches
        definite = self._definite
        self._later = {} if outer is None else outer
        self._frames.append(Frame("function", names | bound, declared))
        self._block(statements)
        self._frames.pop()
        later, self._later, self._line, self._branches = self._later, outer, line, branches
        self._definite = definite
        return {} if outer is not None else later

    def _class(self, node: ast.ClassDef) -> None:
        carried: Carried = {}
        for part in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            inherited = self._expr(part, Level.READ)
            self._use(inherited)
            carried |= inherited
        bound, declared = bindings(node.body)
        methods: Carried = {}
        self._frames.append(Frame("class", bound, declared))
        for statement in node.body:
            self._line = statement.lineno
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and self._later is None:
                for decorator in statement.decorator_list:
                    self._use(self._expr(decorator, Level.READ))
                self._signature(statement.args)
                for name, use in self._body(arguments(statement.args), statement.body).items():
                    known = methods.get(name)
                    methods[name] = use if known is None or known.level < use.level else known
            else:
                self._statement(statement)
        self._frames.pop()
        self._store(node.name, carried | methods, kind="definition")
        if self._later is None and not self._frames:
            self._classes.add(node.name)

"builtin.module"() <{sym_name = "jit_kvc"}> ({
  "func.func"() <{function_type = (tensor<2x1x4x64xbf16>, tensor<2x1x2x64xbf16>, tensor<2x1x2x64xbf16>, tensor<2x32x2x64xf8E4M3FN>, tensor<2x32x2x64xf8E4M3FN>, tensor<i32>, tensor<f32>, tensor<f32>, tensor<256x64xf32>, tensor<f32>) -> (tensor<2x1x64xf32>, tensor<2x32x2x64xf8E4M3FN>, tensor<2x32x2x64xf8E4M3FN>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg9: tensor<2x1x4x64xbf16>, %arg10: tensor<2x1x2x64xbf16>, %arg11: tensor<2x1x2x64xbf16>, %arg12: tensor<2x32x2x64xf8E4M3FN>, %arg13: tensor<2x32x2x64xf8E4M3FN>, %arg14: tensor<i32>, %arg15: tensor<f32>, %arg16: tensor<f32>, %arg17: tensor<256x64xf32>, %arg18: tensor<f32>):
    %17 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %18 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %19 = "stablehlo.constant"() <{value = dense<-2.38197633E+38> : tensor<f32>}> : () -> tensor<f32>
    %20 = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %21 = "stablehlo.constant"() <{value = dense<1.250000e-01> : tensor<f32>}> : () -> tensor<f32>
    %22 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %23 = "stablehlo.constant"() <{value = dense<32> : tensor<i32>}> : () -> tensor<i32>
    %24 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %25 = "stablehlo.constant"() <{value = dense<4.480000e+02> : tensor<f32>}> : () -> tensor<f32>
    %26 = "stablehlo.constant"() <{value = dense<-4.480000e+02> : tensor<f32>}> : () -> tensor<f32>
    %27 = "stablehlo.convert"(%arg10) : (tensor<2x1x2x64xbf16>) -> tensor<2x1x2x64xf32>
    %28 = "stablehlo.broadcast_in_dim"(%arg15) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1x2x64xf32>
    %29 = "stablehlo.divide"(%27, %28) : (tensor<2x1x2x64xf32>, tensor<2x1x2x64xf32>) -> tensor<2x1x2x64xf32>
    %30 = "func.call"(%29, %26, %25) <{callee = @clip}> : (tensor<2x1x2x64xf32>, tensor<f32>, tensor<f32>) -> tensor<2x1x2x64xf32>
    %31 = "stablehlo.convert"(%30) : (tensor<2x1x2x64xf32>) -> tensor<2x1x2x64xf8E4M3FN>
    %32 = "stablehlo.compare"(%arg14, %24) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %33 = "stablehlo.add"(%arg14, %23) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %34 = "stablehlo.select"(%32, %33, %arg14) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %35 = "stablehlo.dynamic_update_slice"(%arg12, %31, %24, %34, %24, %24) : (tensor<2x32x2x64xf8E4M3FN>, tensor<2x1x2x64xf8E4M3FN>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x2x64xf8E4M3FN>
    %36 = "stablehlo.convert"(%arg11) : (tensor<2x1x2x64xbf16>) -> tensor<2x1x2x64xf32>
    %37 = "stablehlo.broadcast_in_dim"(%arg16) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1x2x64xf32>
    %38 = "stablehlo.divide"(%36, %37) : (tensor<2x1x2x64xf32>, tensor<2x1x2x64xf32>) -> tensor<2x1x2x64xf32>
    %39 = "func.call"(%38, %26, %25) <{callee = @clip}> : (tensor<2x1x2x64xf32>, tensor<f32>, tensor<f32>) -> tensor<2x1x2x64xf32>
    %40 = "stablehlo.convert"(%39) : (tensor<2x1x2x64xf32>) -> tensor<2x1x2x64xf8E4M3FN>
    %41 = "stablehlo.compare"(%arg14, %24) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %42 = "stablehlo.add"(%arg14, %23) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %43 = "stablehlo.select"(%41, %42, %arg14) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %44 = "stablehlo.dynamic_update_slice"(%arg13, %40, %24, %43, %24, %24) : (tensor<2x32x2x64xf8E4M3FN>, tensor<2x1x2x64xf8E4M3FN>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x2x64xf8E4M3FN>
    %45 = "stablehlo.convert"(%35) : (tensor<2x32x2x64xf8E4M3FN>) -> tensor<2x32x2x64xf32>
    %46 = "stablehlo.broadcast_in_dim"(%arg15) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x32x2x64xf32>
    %47 = "stablehlo.multiply"(%45, %46) : (tensor<2x32x2x64xf32>, tensor<2x32x2x64xf32>) -> tensor<2x32x2x64xf32>
    %48 = "stablehlo.convert"(%47) : (tensor<2x32x2x64xf32>) -> tensor<2x32x2x64xbf16>
    %49 = "stablehlo.convert"(%44) : (tensor<2x32x2x64xf8E4M3FN>) -> tensor<2x32x2x64xf32>
    %50 = "stablehlo.broadcast_in_dim"(%arg16) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x32x2x64xf32>
    %51 = "stablehlo.multiply"(%49, %50) : (tensor<2x32x2x64xf32>, tensor<2x32x2x64xf32>) -> tensor<2x32x2x64xf32>
    %52 = "stablehlo.convert"(%51) : (tensor<2x32x2x64xf32>) -> tensor<2x32x2x64xbf16>
    %53 = "stablehlo.add"(%arg14, %22) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %54 = "stablehlo.broadcast_in_dim"(%53) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<2xi32>
    %55 = "stablehlo.reshape"(%arg9) : (tensor<2x1x4x64xbf16>) -> tensor<2x1x2x2x64xbf16>
    %56 = "stablehlo.dot_general"(%55, %48) <{algorithm = #stablehlo.dot_algorithm<lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>, dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [4], rhs_contracting_dimensions = [3]>}> : (tensor<2x1x2x2x64xbf16>, tensor<2x32x2x64xbf16>) -> tensor<2x2x1x2x32xf32>
    %57 = "stablehlo.broadcast_in_dim"(%21) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x2x1x2x32xf32>
    %58 = "stablehlo.multiply"(%56, %57) : (tensor<2x2x1x2x32xf32>, tensor<2x2x1x2x32xf32>) -> tensor<2x2x1x2x32xf32>
    %59 = "stablehlo.broadcast_in_dim"(%20) <{broadcast_dimensions = array<i64>}> : (tensor<i1>) -> tensor<2x2x1x32xi1>
    %60 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<32xi32>
    %61 = "stablehlo.broadcast_in_dim"(%60) <{broadcast_dimensions = array<i64: 2>}> : (tensor<32xi32>) -> tensor<1x1x32xi32>
    %62 = "stablehlo.broadcast_in_dim"(%54) <{broadcast_dimensions = array<i64: 0>}> : (tensor<2xi32>) -> tensor<2x1x1xi32>
    %63 = "stablehlo.broadcast_in_dim"(%61) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x32xi32>) -> tensor<2x1x32xi32>
    %64 = "stablehlo.broadcast_in_dim"(%62) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<2x1x1xi32>) -> tensor<2x1x32xi32>
    %65 = "stablehlo.compare"(%63, %64) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<2x1x32xi32>, tensor<2x1x32xi32>) -> tensor<2x1x32xi1>
    %66 = "stablehlo.broadcast_in_dim"(%20) <{broadcast_dimensions = array<i64>}> : (tensor<i1>) -> tensor<2x1x32xi1>
    %67 = "stablehlo.and"(%66, %65) : (tensor<2x1x32xi1>, tensor<2x1x32xi1>) -> tensor<2x1x32xi1>
    %68 = "stablehlo.broadcast_in_dim"(%67) <{broadcast_dimensions = array<i64: 0, 2, 3>}> : (tensor<2x1x32xi1>) -> tensor<2x1x1x32xi1>
    %69 = "stablehlo.broadcast_in_dim"(%68) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<2x1x1x32xi1>) -> tensor<2x2x1x32xi1>
    %70 = "stablehlo.and"(%59, %69) : (tensor<2x2x1x32xi1>, tensor<2x2x1x32xi1>) -> tensor<2x2x1x32xi1>
    %71 = "func.call"(%70, %58, %19) <{callee = @_where}> : (tensor<2x2x1x32xi1>, tensor<2x2x1x2x32xf32>, tensor<f32>) -> tensor<2x2x2x1x32xf32>
    %72 = "stablehlo.reduce"(%71, %18) <{dimensions = array<i64: 4>}> ({
    ^bb0(%arg21: tensor<f32>, %arg22: tensor<f32>):
      %99 = "stablehlo.maximum"(%arg21, %arg22) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%99) : (tensor<f32>) -> ()
    }) : (tensor<2x2x2x1x32xf32>, tensor<f32>) -> tensor<2x2x2x1xf32>
    %73 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x2x2x1xf32>
    %74 = "stablehlo.maximum"(%73, %72) : (tensor<2x2x2x1xf32>, tensor<2x2x2x1xf32>) -> tensor<2x2x2x1xf32>
    %75 = "stablehlo.broadcast_in_dim"(%74) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<2x2x2x1xf32>) -> tensor<2x2x2x1x1xf32>
    %76 = "stablehlo.broadcast_in_dim"(%75) <{broadcast_dimensions = array<i64: 0, 1, 2, 3, 4>}> : (tensor<2x2x2x1x1xf32>) -> tensor<2x2x2x1x32xf32>
    %77 = "stablehlo.subtract"(%71, %76) : (tensor<2x2x2x1x32xf32>, tensor<2x2x2x1x32xf32>) -> tensor<2x2x2x1x32xf32>
    %78 = "stablehlo.exponential"(%77) : (tensor<2x2x2x1x32xf32>) -> tensor<2x2x2x1x32xf32>
    %79 = "stablehlo.reduce"(%78, %17) <{dimensions = array<i64: 4>}> ({
    ^bb0(%arg19: tensor<f32>, %arg20: tensor<f32>):
      %98 = "stablehlo.add"(%arg19, %arg20) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%98) : (tensor<f32>) -> ()
    }) : (tensor<2x2x2x1x32xf32>, tensor<f32>) -> tensor<2x2x2x1xf32>
    %80 = "stablehlo.broadcast_in_dim"(%79) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<2x2x2x1xf32>) -> tensor<2x2x2x1x1xf32>
    %81 = "stablehlo.broadcast_in_dim"(%80) <{broadcast_dimensions = array<i64: 0, 1, 2, 3, 4>}> : (tensor<2x2x2x1x1xf32>) -> tensor<2x2x2x1x32xf32>
    %82 = "stablehlo.divide"(%78, %81) : (tensor<2x2x2x1x32xf32>, tensor<2x2x2x1x32xf32>) -> tensor<2x2x2x1x32xf32>
    %83 = "stablehlo.convert"(%82) : (tensor<2x2x2x1x32xf32>) -> tensor<2x2x2x1x32xbf16>
    %84 = "stablehlo.dot_general"(%52, %83) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [1, 2], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [4]>}> : (tensor<2x32x2x64xbf16>, tensor<2x2x2x1x32xbf16>) -> tensor<2x2x64x2x1xbf16>
    %85 = "stablehlo.transpose"(%84) <{permutation = array<i64: 3, 0, 4, 1, 2>}> : (tensor<2x2x64x2x1xbf16>) -> tensor<2x2x1x2x64xbf16>
    %86 = "stablehlo.transpose"(%85) <{permutation = array<i64: 1, 2, 3, 0, 4>}> : (tensor<2x2x1x2x64xbf16>) -> tensor<2x1x2x2x64xbf16>
    %87 = "stablehlo.reshape"(%86) : (tensor<2x1x2x2x64xbf16>) -> tensor<2x1x4x64xbf16>
    %88 = "stablehlo.reshape"(%87) : (tensor<2x1x4x64xbf16>) -> tensor<2x1x256xbf16>
    %89 = "stablehlo.convert"(%88) : (tensor<2x1x256xbf16>) -> tensor<2x1x256xf32>
    %90 = "stablehlo.broadcast_in_dim"(%arg18) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1x256xf32>
    %91 = "stablehlo.divide"(%89, %90) : (tensor<2x1x256xf32>, tensor<2x1x256xf32>) -> tensor<2x1x256xf32>
    %92 = "func.call"(%91, %26, %25) <{callee = @clip_0}> : (tensor<2x1x256xf32>, tensor<f32>, tensor<f32>) -> tensor<2x1x256xf32>
    %93 = "stablehlo.convert"(%92) : (tensor<2x1x256xf32>) -> tensor<2x1x256xf8E4M3FN>
    %94 = "stablehlo.convert"(%93) : (tensor<2x1x256xf8E4M3FN>) -> tensor<2x1x256xf32>
    %95 = "stablehlo.broadcast_in_dim"(%arg18) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1x256xf32>
    %96 = "stablehlo.multiply"(%94, %95) : (tensor<2x1x256xf32>, tensor<2x1x256xf32>) -> tensor<2x1x256xf32>
    %97 = "stablehlo.dot_general"(%96, %arg17) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>}> : (tensor<2x1x256xf32>, tensor<256x64xf32>) -> tensor<2x1x64xf32>
    "func.return"(%97, %35, %44) : (tensor<2x1x64xf32>, tensor<2x32x2x64xf8E4M3FN>, tensor<2x32x2x64xf8E4M3FN>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x1x2x64xf32>, tensor<f32>, tensor<f32>) -> tensor<2x1x2x64xf32>, sym_name = "clip", sym_visibility = "private"}> ({
  ^bb0(%arg6: tensor<2x1x2x64xf32>, %arg7: tensor<f32>, %arg8: tensor<f32>):
    %11 = "stablehlo.convert"(%arg7) : (tensor<f32>) -> tensor<f32>
    %12 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1x2x64xf32>
    %13 = "stablehlo.maximum"(%12, %arg6) : (tensor<2x1x2x64xf32>, tensor<2x1x2x64xf32>) -> tensor<2x1x2x64xf32>
    %14 = "stablehlo.convert"(%arg8) : (tensor<f32>) -> tensor<f32>
    %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1x2x64xf32>
    %16 = "stablehlo.minimum"(%15, %13) : (tensor<2x1x2x64xf32>, tensor<2x1x2x64xf32>) -> tensor<2x1x2x64xf32>
    "func.return"(%16) : (tensor<2x1x2x64xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x2x1x32xi1>, tensor<2x2x1x2x32xf32>, tensor<f32>) -> tensor<2x2x2x1x32xf32>, sym_name = "_where", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<2x2x1x32xi1>, %arg4: tensor<2x2x1x2x32xf32>, %arg5: tensor<f32>):
    %6 = "stablehlo.broadcast_in_dim"(%arg5) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x2x1x32xf32>
    %7 = "stablehlo.broadcast_in_dim"(%arg3) <{broadcast_dimensions = array<i64: 1, 2, 3, 4>}> : (tensor<2x2x1x32xi1>) -> tensor<2x2x2x1x32xi1>
    %8 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64: 1, 2, 3, 4>}> : (tensor<2x2x1x32xf32>) -> tensor<2x2x2x1x32xf32>
    %9 = "stablehlo.transpose"(%arg4) <{permutation = array<i64: 3, 0, 1, 2, 4>}> : (tensor<2x2x1x2x32xf32>) -> tensor<2x2x2x1x32xf32>
    %10 = "stablehlo.select"(%7, %9, %8) : (tensor<2x2x2x1x32xi1>, tensor<2x2x2x1x32xf32>, tensor<2x2x2x1x32xf32>) -> tensor<2x2x2x1x32xf32>
    "func.return"(%10) : (tensor<2x2x2x1x32xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x1x256xf32>, tensor<f32>, tensor<f32>) -> tensor<2x1x256xf32>, sym_name = "clip_0", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<2x1x256xf32>, %arg1: tensor<f32>, %arg2: tensor<f32>):
    %0 = "stablehlo.convert"(%arg1) : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1x256xf32>
    %2 = "stablehlo.maximum"(%1, %arg0) : (tensor<2x1x256xf32>, tensor<2x1x256xf32>) -> tensor<2x1x256xf32>
    %3 = "stablehlo.convert"(%arg2) : (tensor<f32>) -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x1x256xf32>
    %5 = "stablehlo.minimum"(%4, %2) : (tensor<2x1x256xf32>, tensor<2x1x256xf32>) -> tensor<2x1x256xf32>
    "func.return"(%5) : (tensor<2x1x256xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()

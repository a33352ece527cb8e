"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{function_type = (tensor<2x16x4x64xbf16>, tensor<2x16x2x64xbf16>, tensor<2x16x2x64xbf16>, tensor<256x64xf32>, tensor<f32>, tensor<1x4x16x16xbf16>) -> tensor<2x16x64xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg7: tensor<2x16x4x64xbf16>, %arg8: tensor<2x16x2x64xbf16>, %arg9: tensor<2x16x2x64xbf16>, %arg10: tensor<256x64xf32>, %arg11: tensor<f32>, %arg12: tensor<1x4x16x16xbf16>):
    %19 = "stablehlo.constant"() <{value = dense<4.480000e+02> : tensor<f32>}> : () -> tensor<f32>
    %20 = "stablehlo.constant"() <{value = dense<-4.480000e+02> : tensor<f32>}> : () -> tensor<f32>
    %21 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %22 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %23 = "stablehlo.constant"() <{value = dense<-2.38197633E+38> : tensor<f32>}> : () -> tensor<f32>
    %24 = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %25 = "stablehlo.constant"() <{value = dense<1.250000e-01> : tensor<f32>}> : () -> tensor<f32>
    %26 = "stablehlo.reshape"(%arg7) : (tensor<2x16x4x64xbf16>) -> tensor<2x16x2x2x64xbf16>
    %27 = "stablehlo.reshape"(%arg12) : (tensor<1x4x16x16xbf16>) -> tensor<1x2x2x16x16xbf16>
    %28 = "stablehlo.dot_general"(%26, %arg8) <{algorithm = #stablehlo.dot_algorithm<lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>, dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [4], rhs_contracting_dimensions = [3]>}> : (tensor<2x16x2x2x64xbf16>, tensor<2x16x2x64xbf16>) -> tensor<2x2x16x2x16xf32>
    %29 = "stablehlo.broadcast_in_dim"(%25) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x2x16x2x16xf32>
    %30 = "stablehlo.multiply"(%28, %29) : (tensor<2x2x16x2x16xf32>, tensor<2x2x16x2x16xf32>) -> tensor<2x2x16x2x16xf32>
    %31 = "stablehlo.convert"(%27) : (tensor<1x2x2x16x16xbf16>) -> tensor<1x2x2x16x16xf32>
    %32 = "stablehlo.transpose"(%30) <{permutation = array<i64: 3, 0, 1, 2, 4>}> : (tensor<2x2x16x2x16xf32>) -> tensor<2x2x2x16x16xf32>
    %33 = "stablehlo.transpose"(%31) <{permutation = array<i64: 2, 0, 1, 3, 4>}> : (tensor<1x2x2x16x16xf32>) -> tensor<2x1x2x16x16xf32>
    %34 = "stablehlo.broadcast_in_dim"(%33) <{broadcast_dimensions = array<i64: 0, 1, 2, 3, 4>}> : (tensor<2x1x2x16x16xf32>) -> tensor<2x2x2x16x16xf32>
    %35 = "stablehlo.add"(%32, %34) : (tensor<2x2x2x16x16xf32>, tensor<2x2x2x16x16xf32>) -> tensor<2x2x2x16x16xf32>
    %36 = "stablehlo.broadcast_in_dim"(%24) <{broadcast_dimensions = array<i64>}> : (tensor<i1>) -> tensor<2x2x16x16xi1>
    %37 = "stablehlo.broadcast_in_dim"(%24) <{broadcast_dimensions = array<i64>}> : (tensor<i1>) -> tensor<16x16xi1>
    %38 = "func.call"(%37) <{callee = @tril}> : (tensor<16x16xi1>) -> tensor<16x16xi1>
    %39 = "stablehlo.broadcast_in_dim"(%38) <{broadcast_dimensions = array<i64: 2, 3>}> : (tensor<16x16xi1>) -> tensor<1x1x16x16xi1>
    %40 = "stablehlo.broadcast_in_dim"(%39) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x1x16x16xi1>) -> tensor<2x2x16x16xi1>
    %41 = "stablehlo.and"(%36, %40) : (tensor<2x2x16x16xi1>, tensor<2x2x16x16xi1>) -> tensor<2x2x16x16xi1>
    %42 = "func.call"(%41, %35, %23) <{callee = @_where}> : (tensor<2x2x16x16xi1>, tensor<2x2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x2x16x16xf32>
    %43 = "stablehlo.reduce"(%42, %22) <{dimensions = array<i64: 4>}> ({
    ^bb0(%arg15: tensor<f32>, %arg16: tensor<f32>):
      %70 = "stablehlo.maximum"(%arg15, %arg16) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%70) : (tensor<f32>) -> ()
    }) : (tensor<2x2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x2x16xf32>
    %44 = "stablehlo.broadcast_in_dim"(%22) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x2x2x16xf32>
    %45 = "stablehlo.maximum"(%44, %43) : (tensor<2x2x2x16xf32>, tensor<2x2x2x16xf32>) -> tensor<2x2x2x16xf32>
    %46 = "stablehlo.broadcast_in_dim"(%45) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<2x2x2x16xf32>) -> tensor<2x2x2x16x1xf32>
    %47 = "stablehlo.broadcast_in_dim"(%46) <{broadcast_dimensions = array<i64: 0, 1, 2, 3, 4>}> : (tensor<2x2x2x16x1xf32>) -> tensor<2x2x2x16x16xf32>
    %48 = "stablehlo.subtract"(%42, %47) : (tensor<2x2x2x16x16xf32>, tensor<2x2x2x16x16xf32>) -> tensor<2x2x2x16x16xf32>
    %49 = "stablehlo.exponential"(%48) : (tensor<2x2x2x16x16xf32>) -> tensor<2x2x2x16x16xf32>
    %50 = "stablehlo.reduce"(%49, %21) <{dimensions = array<i64: 4>}> ({
    ^bb0(%arg13: tensor<f32>, %arg14: tensor<f32>):
      %69 = "stablehlo.add"(%arg13, %arg14) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%69) : (tensor<f32>) -> ()
    }) : (tensor<2x2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x2x16xf32>
    %51 = "stablehlo.broadcast_in_dim"(%50) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<2x2x2x16xf32>) -> tensor<2x2x2x16x1xf32>
    %52 = "stablehlo.broadcast_in_dim"(%51) <{broadcast_dimensions = array<i64: 0, 1, 2, 3, 4>}> : (tensor<2x2x2x16x1xf32>) -> tensor<2x2x2x16x16xf32>
    %53 = "stablehlo.divide"(%49, %52) : (tensor<2x2x2x16x16xf32>, tensor<2x2x2x16x16xf32>) -> tensor<2x2x2x16x16xf32>
    %54 = "stablehlo.convert"(%53) : (tensor<2x2x2x16x16xf32>) -> tensor<2x2x2x16x16xbf16>
    %55 = "stablehlo.dot_general"(%arg9, %54) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [1, 2], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [4]>}> : (tensor<2x16x2x64xbf16>, tensor<2x2x2x16x16xbf16>) -> tensor<2x2x64x2x16xbf16>
    %56 = "stablehlo.transpose"(%55) <{permutation = array<i64: 3, 0, 4, 1, 2>}> : (tensor<2x2x64x2x16xbf16>) -> tensor<2x2x16x2x64xbf16>
    %57 = "stablehlo.transpose"(%56) <{permutation = array<i64: 1, 2, 3, 0, 4>}> : (tensor<2x2x16x2x64xbf16>) -> tensor<2x16x2x2x64xbf16>
    %58 = "stablehlo.reshape"(%57) : (tensor<2x16x2x2x64xbf16>) -> tensor<2x16x4x64xbf16>
    %59 = "stablehlo.reshape"(%58) : (tensor<2x16x4x64xbf16>) -> tensor<2x16x256xbf16>
    %60 = "stablehlo.convert"(%59) : (tensor<2x16x256xbf16>) -> tensor<2x16x256xf32>
    %61 = "stablehlo.broadcast_in_dim"(%arg11) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x16x256xf32>
    %62 = "stablehlo.divide"(%60, %61) : (tensor<2x16x256xf32>, tensor<2x16x256xf32>) -> tensor<2x16x256xf32>
    %63 = "func.call"(%62, %20, %19) <{callee = @clip}> : (tensor<2x16x256xf32>, tensor<f32>, tensor<f32>) -> tensor<2x16x256xf32>
    %64 = "stablehlo.convert"(%63) : (tensor<2x16x256xf32>) -> tensor<2x16x256xf8E4M3FN>
    %65 = "stablehlo.convert"(%64) : (tensor<2x16x256xf8E4M3FN>) -> tensor<2x16x256xf32>
    %66 = "stablehlo.broadcast_in_dim"(%arg11) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x16x256xf32>
    %67 = "stablehlo.multiply"(%65, %66) : (tensor<2x16x256xf32>, tensor<2x16x256xf32>) -> tensor<2x16x256xf32>
    %68 = "stablehlo.dot_general"(%67, %arg10) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>}> : (tensor<2x16x256xf32>, tensor<256x64xf32>) -> tensor<2x16x64xf32>
    "func.return"(%68) : (tensor<2x16x64xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<16x16xi1>) -> tensor<16x16xi1>, sym_name = "tril", sym_visibility = "private"}> ({
  ^bb0(%arg6: tensor<16x16xi1>):
    %10 = "stablehlo.constant"() <{value = dense<false> : tensor<i1>}> : () -> tensor<i1>
    %11 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %12 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<16x16xi32>
    %13 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<16x16xi32>
    %14 = "stablehlo.add"(%12, %13) : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi32>
    %15 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<16x16xi32>
    %16 = "stablehlo.compare"(%14, %15) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
    %17 = "stablehlo.broadcast_in_dim"(%10) <{broadcast_dimensions = array<i64>}> : (tensor<i1>) -> tensor<16x16xi1>
    %18 = "stablehlo.select"(%16, %arg6, %17) : (tensor<16x16xi1>, tensor<16x16xi1>, tensor<16x16xi1>) -> tensor<16x16xi1>
    "func.return"(%18) : (tensor<16x16xi1>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x2x16x16xi1>, tensor<2x2x2x16x16xf32>, tensor<f32>) -> tensor<2x2x2x16x16xf32>, sym_name = "_where", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<2x2x16x16xi1>, %arg4: tensor<2x2x2x16x16xf32>, %arg5: tensor<f32>):
    %6 = "stablehlo.broadcast_in_dim"(%arg5) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x2x16x16xf32>
    %7 = "stablehlo.broadcast_in_dim"(%arg3) <{broadcast_dimensions = array<i64: 1, 2, 3, 4>}> : (tensor<2x2x16x16xi1>) -> tensor<2x2x2x16x16xi1>
    %8 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64: 1, 2, 3, 4>}> : (tensor<2x2x16x16xf32>) -> tensor<2x2x2x16x16xf32>
    %9 = "stablehlo.select"(%7, %arg4, %8) : (tensor<2x2x2x16x16xi1>, tensor<2x2x2x16x16xf32>, tensor<2x2x2x16x16xf32>) -> tensor<2x2x2x16x16xf32>
    "func.return"(%9) : (tensor<2x2x2x16x16xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x16x256xf32>, tensor<f32>, tensor<f32>) -> tensor<2x16x256xf32>, sym_name = "clip", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<2x16x256xf32>, %arg1: tensor<f32>, %arg2: tensor<f32>):
    %0 = "stablehlo.convert"(%arg1) : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x16x256xf32>
    %2 = "stablehlo.maximum"(%1, %arg0) : (tensor<2x16x256xf32>, tensor<2x16x256xf32>) -> tensor<2x16x256xf32>
    %3 = "stablehlo.convert"(%arg2) : (tensor<f32>) -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x16x256xf32>
    %5 = "stablehlo.minimum"(%4, %2) : (tensor<2x16x256xf32>, tensor<2x16x256xf32>) -> tensor<2x16x256xf32>
    "func.return"(%5) : (tensor<2x16x256xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
